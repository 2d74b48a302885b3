// SPDX-License-Identifier: MIT
#include "framelane/lane/client.hpp"

#include <memory>
#include <utility>

#include "capi/handles.hpp"
#include "capi/rpc.hpp"

struct framelane_response {
  framelane::capi::HandlePool<framelane_response>* pool = nullptr;
  std::uint32_t index = 0;
  std::atomic<std::uint32_t> next{0};
  std::atomic<std::uint32_t> refs{0};
  framelane::Response response;
};

struct framelane_call {
  framelane::capi::HandlePool<framelane_call>* pool = nullptr;
  std::uint32_t index = 0;
  std::atomic<std::uint32_t> next{0};
  framelane::Call call;
  framelane::capi::HandlePool<framelane_response>* responses = nullptr;  // one use
};

struct framelane_client {
  explicit framelane_client(framelane::Client&& opened) : client(std::move(opened)) {}

  framelane::Client client;
  framelane::capi::PoolUse<framelane_loan> loans;
  framelane::capi::PoolUse<framelane_call> calls;
  framelane::capi::PoolUse<framelane_response> responses;
};

namespace framelane::capi {
namespace {

framelane_code hand_out(Result<Response>&& answer, HandlePool<framelane_response>* pool,
                        framelane_response** out) noexcept {
  if (!answer) return report(answer.error());
  framelane_response* const handle = pool->get();
  if (handle == nullptr) return report(Code::kNoMemory, "no memory for the handle of a response");
  handle->response = std::move(*answer);
  handle->refs.store(1, std::memory_order_relaxed);
  *out = handle;
  return FRAMELANE_OK;
}

struct PutBack {
  void operator()(framelane_call* call) const noexcept { call->pool->put(call); }
};

/// Hands out what `start` (which returns a Result<Call>) sends. The handle comes first: behind a request that was sent,
/// and a loan that is used up, there is no way back.
template <class Start>
framelane_code start_call(const framelane_client& client, framelane_call** out, Start start) {
  std::unique_ptr<framelane_call, PutBack> handle(client.calls.get());
  if (handle == nullptr) return report(Code::kNoMemory, "no memory for the handle of a call");
  Result<Call> started = start();
  if (!started) return report(started.error());
  handle->call = std::move(*started);
  handle->responses = client.responses.pool();
  handle->responses->join();
  *out = handle.release();
  return FRAMELANE_OK;
}

}  // namespace
}  // namespace framelane::capi

using namespace framelane;
using namespace framelane::capi;

framelane_code framelane_client_open(const char* lane, const framelane_rpc_settings* settings,
                                     framelane_client** client) {
  if (client == nullptr) return missing("client");
  *client = nullptr;
  return guarded([&]() -> framelane_code {
    const auto from = to_settings(settings);
    if (!from) return report(from.error());
    auto wanted = rpc_settings<ClientSettings>(lane, *from);
    wanted.connect_timeout = std::chrono::nanoseconds(from->connect_timeout_ns);
    auto opened = Client::open(std::move(wanted));
    if (!opened) return report(opened.error());
    auto handle = std::make_unique<framelane_client>(std::move(*opened));
    const bool complete =
        handle->loans.pool() != nullptr && handle->calls.pool() != nullptr && handle->responses.pool() != nullptr;
    if (!complete) throw std::bad_alloc();
    *client = handle.release();
    return FRAMELANE_OK;
  });
}

void framelane_client_close(framelane_client* client) { delete client; }

framelane_code framelane_client_connect(framelane_client* client, int64_t timeout_ns) {
  if (client == nullptr) return missing("client");
  return guarded([&] { return code_of(client->client.connect(timeout_of(timeout_ns))); });
}

framelane_code framelane_client_call(framelane_client* client, const void* request, size_t size, int64_t timeout_ns,
                                     framelane_response** response) {
  if (response == nullptr) return missing("response");
  *response = nullptr;
  if (client == nullptr) return missing("client");
  std::span<const std::byte> bytes;
  if (!bytes_of(request, size, bytes)) return missing("request");
  return guarded(
      [&] { return hand_out(client->client.call(bytes, timeout_of(timeout_ns)), client->responses.pool(), response); });
}

framelane_code framelane_client_call_loan(framelane_client* client, framelane_loan* request, size_t size,
                                          int64_t timeout_ns, framelane_response** response, int32_t* sent) {
  if (sent != nullptr) *sent = 0;
  if (response == nullptr) return missing("response");
  *response = nullptr;
  if (client == nullptr) return missing("client");
  if (request == nullptr) return missing("request");
  return guarded([&] {
    auto answer = client->client.call(std::move(request->loan), size, timeout_of(timeout_ns));
    const bool used = !request->loan;
    if (used) used_up(request);
    if (sent != nullptr) *sent = used ? 1 : 0;
    return hand_out(std::move(answer), client->responses.pool(), response);
  });
}

framelane_code framelane_client_start(framelane_client* client, const void* request, size_t size, int64_t timeout_ns,
                                      framelane_call** call) {
  if (call == nullptr) return missing("call");
  *call = nullptr;
  if (client == nullptr) return missing("client");
  std::span<const std::byte> bytes;
  if (!bytes_of(request, size, bytes)) return missing("request");
  return guarded(
      [&] { return start_call(*client, call, [&] { return client->client.start(bytes, timeout_of(timeout_ns)); }); });
}

framelane_code framelane_client_start_loan(framelane_client* client, framelane_loan* request, size_t size,
                                           int64_t timeout_ns, framelane_call** call) {
  if (call == nullptr) return missing("call");
  *call = nullptr;
  if (client == nullptr) return missing("client");
  if (request == nullptr) return missing("request");
  return guarded([&] {
    const auto code = start_call(
        *client, call, [&] { return client->client.start(std::move(request->loan), size, timeout_of(timeout_ns)); });
    if (code == FRAMELANE_OK) used_up(request);
    return code;
  });
}

framelane_code framelane_client_loan(framelane_client* client, size_t size, framelane_loan** loan) {
  if (loan == nullptr) return missing("loan");
  *loan = nullptr;
  if (client == nullptr) return missing("client");
  return guarded([&] {
    auto lent = client->client.loan(size);
    return lent ? lend(std::move(*lent), client->loans.pool(), loan) : report(lent.error());
  });
}

framelane_code framelane_client_reserve(framelane_client* client, size_t size) {
  if (client == nullptr) return missing("client");
  return guarded([&] { return code_of(client->client.reserve(size)); });
}

void framelane_client_interrupt(framelane_client* client) {
  if (client != nullptr) client->client.interrupt();
}

void framelane_client_resume(framelane_client* client) {
  if (client != nullptr) client->client.resume();
}

framelane_code framelane_client_get_stats(const framelane_client* client, framelane_client_stats* stats) {
  if (client == nullptr) return missing("client");
  const ClientStats from = client->client.stats();
  framelane_client_stats to{};
  to.in_flight = from.in_flight;
  to.sent = from.sent;
  to.answered = from.answered;
  to.late = from.late;
  to.lost = from.lost;
  to.sessions = from.sessions;
  return copy_out(to, stats, "framelane_client_stats");
}

int32_t framelane_client_connected(const framelane_client* client) {
  return client != nullptr && client->client.connected() ? 1 : 0;
}

framelane_code framelane_call_wait(framelane_call* call, int64_t timeout_ns, framelane_response** response) {
  if (response == nullptr) return missing("response");
  *response = nullptr;
  if (call == nullptr) return missing("call");
  return guarded([&] { return hand_out(call->call.wait(timeout_of(timeout_ns)), call->responses, response); });
}

int32_t framelane_call_pending(const framelane_call* call) { return call != nullptr && call->call.pending() ? 1 : 0; }

void framelane_call_free(framelane_call* call) {
  if (call == nullptr) return;
  call->call = Call();
  std::exchange(call->responses, nullptr)->leave();
  call->pool->put(call);
}

framelane_response* framelane_response_ref(framelane_response* response) {
  if (response != nullptr) response->refs.fetch_add(1, std::memory_order_relaxed);
  return response;
}

void framelane_response_unref(framelane_response* response) {
  // acq_rel: the slot goes back after what every thread read of it.
  if (response == nullptr || response->refs.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  response->response.release();
  response->pool->put(response);
}

const void* framelane_response_data(const framelane_response* response) {
  return response != nullptr ? response->response.data() : nullptr;
}

size_t framelane_response_size(const framelane_response* response) {
  return response != nullptr ? response->response.size() : 0;
}

int32_t framelane_response_is_copy(const framelane_response* response) {
  return response != nullptr && response->response.is_copy() ? 1 : 0;
}
