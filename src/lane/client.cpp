// SPDX-License-Identifier: MIT
#include "framelane/lane/client.hpp"

#include <utility>

#include "base/clock.hpp"
#include "lane/client_core.hpp"

namespace framelane {

// --- Call

Call::Call(Call&& other) noexcept : core_(std::move(other.core_)), id_(other.id_) {}

Call& Call::operator=(Call&& other) noexcept {
  if (this == &other) return *this;
  cancel();
  core_ = std::move(other.core_);
  id_ = other.id_;
  return *this;
}

Result<Response> Call::wait(std::chrono::nanoseconds timeout) {
  if (core_ == nullptr) return fail(Code::kInvalidArgument, "this call is over: it was answered, failed or cancelled");
  bool over = false;
  Result<Response> response(tl::in_place);  // the one variable that is returned: see Consumer::take
  core_->wait(response, id_, base::deadline_after(timeout), timeout, over);
  if (over) core_.reset();
  return response;
}

void Call::cancel() noexcept {
  if (const auto core = std::exchange(core_, nullptr)) core->cancel(id_);
}

// --- Client

Client::Client(std::shared_ptr<lane::ClientCore> core) noexcept : core_(std::move(core)) {}
Client::Client(Client&&) noexcept = default;

Client& Client::operator=(Client&& other) noexcept {
  if (this == &other) return *this;
  close();
  core_ = std::move(other.core_);
  return *this;
}

Client::~Client() { close(); }

Result<Client> Client::open(ClientSettings settings) {
  auto core = lane::ClientCore::create(std::move(settings));
  if (!core) return tl::unexpected(core.error());
  return Client(std::move(*core));
}

Result<void> Client::connect(std::chrono::nanoseconds timeout) { return core_->connect(base::deadline_after(timeout)); }

Result<Response> Client::call(std::span<const std::byte> request, std::chrono::nanoseconds timeout) {
  auto loan = core_->loan_copy(request);
  if (!loan) return tl::unexpected(loan.error());
  return call(std::move(*loan), request.size(), timeout);
}

Result<Response> Client::call(Loan&& request, std::size_t size, std::chrono::nanoseconds timeout) {
  Result<Response> response(tl::in_place);
  core_->call(response, request, size, timeout);
  return response;
}

Result<Call> Client::start(std::span<const std::byte> request, std::chrono::nanoseconds timeout) {
  auto loan = core_->loan_copy(request);
  if (!loan) return tl::unexpected(loan.error());
  return start(std::move(*loan), request.size(), timeout);
}

Result<Call> Client::start(Loan&& request, std::size_t size, std::chrono::nanoseconds timeout) {
  const auto id = core_->start(request, size, timeout);
  if (!id) return tl::unexpected(id.error());
  return Call(core_, *id);
}

Result<Loan> Client::loan(std::size_t size) { return core_->loan(size); }
Result<void> Client::reserve(std::size_t size) { return core_->reserve(size); }
void Client::interrupt() noexcept { core_->interrupt(); }
void Client::resume() noexcept { core_->resume(); }
ClientStats Client::stats() const { return core_->stats(); }
bool Client::connected() const noexcept { return core_->connected(); }

void Client::close() noexcept {
  if (core_ != nullptr) core_->close();
}

}  // namespace framelane
