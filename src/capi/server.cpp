// SPDX-License-Identifier: MIT
#include "framelane/lane/server.hpp"

#include <utility>

#include "capi/handles.hpp"
#include "capi/rpc.hpp"

struct framelane_request {
  framelane::capi::HandlePool<framelane_request>* pool = nullptr;
  std::uint32_t index = 0;
  std::atomic<std::uint32_t> next{0};
  framelane::Request request;
  framelane::capi::HandlePool<framelane_loan>* loans = nullptr;  // one use
};

struct framelane_server {
  explicit framelane_server(framelane::Server&& opened) : server(std::move(opened)) {}

  framelane::Server server;
  framelane::capi::PoolUse<framelane_loan> loans;
  framelane::capi::PoolUse<framelane_request> requests;
};

using namespace framelane;
using namespace framelane::capi;

framelane_code framelane_server_open(const char* lane, const framelane_rpc_settings* settings,
                                     framelane_server** server) {
  if (server == nullptr) return missing("server");
  *server = nullptr;
  return guarded([&]() -> framelane_code {
    const auto from = to_settings(settings);
    if (!from) return report(from.error());
    auto opened = Server::open(rpc_settings<ServerSettings>(lane, *from));
    if (!opened) return report(opened.error());
    auto handle = std::make_unique<framelane_server>(std::move(*opened));
    if (handle->loans.pool() == nullptr || handle->requests.pool() == nullptr) throw std::bad_alloc();
    *server = handle.release();
    return FRAMELANE_OK;
  });
}

void framelane_server_close(framelane_server* server) { delete server; }

framelane_code framelane_server_next(framelane_server* server, int64_t timeout_ns, framelane_request** request) {
  if (request == nullptr) return missing("request");
  *request = nullptr;
  if (server == nullptr) return missing("server");
  return guarded([&] {
    auto next = server->server.next(timeout_of(timeout_ns));
    if (!next) return report(next.error());
    framelane_request* const handle = server->requests.get();
    if (handle == nullptr) return report(Code::kNoMemory, "no memory for the handle of a request");
    handle->request = std::move(*next);
    handle->loans = server->loans.pool();
    handle->loans->join();
    *request = handle;
    return FRAMELANE_OK;
  });
}

framelane_code framelane_server_reserve(framelane_server* server, size_t size) {
  if (server == nullptr) return missing("server");
  return guarded([&] { return code_of(server->server.reserve(size)); });
}

void framelane_server_interrupt(framelane_server* server) {
  if (server != nullptr) server->server.interrupt();
}

void framelane_server_resume(framelane_server* server) {
  if (server != nullptr) server->server.resume();
}

framelane_code framelane_server_get_stats(const framelane_server* server, framelane_server_stats* stats) {
  if (server == nullptr) return missing("server");
  const ServerStats from = server->server.stats();
  framelane_server_stats to{};
  to.open = from.open;
  to.taken = from.taken;
  to.answered = from.answered;
  to.expired = from.expired;
  to.cancelled = from.cancelled;
  to.sessions = from.sessions;
  return copy_out(to, stats, "framelane_server_stats");
}

const void* framelane_request_data(const framelane_request* request) {
  return request != nullptr ? request->request.data() : nullptr;
}

size_t framelane_request_size(const framelane_request* request) {
  return request != nullptr ? request->request.size() : 0;
}

int64_t framelane_request_deadline(const framelane_request* request) {
  return request != nullptr ? request->request.deadline() : FRAMELANE_NO_CLOCK_TIME;
}

int32_t framelane_request_cancelled(const framelane_request* request) {
  return request != nullptr && request->request.cancelled() ? 1 : 0;
}

int32_t framelane_request_answered(const framelane_request* request) {
  return request != nullptr && request->request.answered() ? 1 : 0;
}

framelane_code framelane_request_respond(framelane_request* request, const void* data, size_t size) {
  if (request == nullptr) return missing("request");
  std::span<const std::byte> bytes;
  if (!bytes_of(data, size, bytes)) return missing("data");
  return guarded([&] { return code_of(request->request.respond(bytes)); });
}

framelane_code framelane_request_loan(framelane_request* request, size_t size, framelane_loan** loan) {
  if (loan == nullptr) return missing("loan");
  *loan = nullptr;
  if (request == nullptr) return missing("request");
  return guarded([&] {
    auto lent = request->request.loan(size);
    return lent ? lend(std::move(*lent), request->loans, loan) : report(lent.error());
  });
}

framelane_code framelane_request_respond_loan(framelane_request* request, framelane_loan* loan, size_t size) {
  if (request == nullptr) return missing("request");
  if (loan == nullptr) return missing("loan");
  return guarded([&] {
    const auto sent = request->request.respond(std::move(loan->loan), size);
    if (sent) used_up(loan);
    return code_of(sent);
  });
}

framelane_code framelane_request_respond_error(framelane_request* request, int32_t code, const char* text) {
  if (request == nullptr) return missing("request");
  if (code < FRAMELANE_TIMEOUT || code > FRAMELANE_SYSTEM) {
    return report(Code::kInvalidArgument, "an error answer needs a framelane_code other than FRAMELANE_OK");
  }
  return guarded([&] { return code_of(request->request.respond_error(static_cast<Code>(code), or_empty(text))); });
}

void framelane_request_free(framelane_request* request) {
  if (request == nullptr) return;
  request->request = Request();
  std::exchange(request->loans, nullptr)->leave();
  request->pool->put(request);
}
