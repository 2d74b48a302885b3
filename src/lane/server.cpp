// SPDX-License-Identifier: MIT
#include "framelane/lane/server.hpp"

#include <cstring>
#include <utility>

#include "lane/server_core.hpp"

namespace framelane {

// --- Request

Request::Request(Request&& other) noexcept
    : core_(std::move(other.core_)),
      frame_(std::move(other.frame_)),
      size_(std::exchange(other.size_, 0)),
      id_(other.id_),
      session_(other.session_),
      deadline_ns_(other.deadline_ns_) {}

Request& Request::operator=(Request&& other) noexcept {
  if (this == &other) return *this;
  { const Request old(std::move(*this)); }  // answers
  core_ = std::move(other.core_);
  frame_ = std::move(other.frame_);
  size_ = std::exchange(other.size_, 0);
  id_ = other.id_;
  session_ = other.session_;
  deadline_ns_ = other.deadline_ns_;
  return *this;
}

Request::~Request() {
  if (core_ == nullptr) return;
  static_cast<void>(core_->respond_error(*this, Code::kRefused, "the server gave no answer to this request"));
  core_->finish(*this, false);
}

bool Request::cancelled() const { return core_ != nullptr && core_->cancelled(*this); }

Result<Loan> Request::loan(std::size_t size) {
  if (core_ == nullptr) return fail(Code::kInvalidArgument, "this request is answered already");
  return core_->loan(size);
}

Result<void> Request::respond(std::span<const std::byte> bytes) {
  auto lent = loan(bytes.size());
  if (!lent) return tl::unexpected(lent.error());
  if (!bytes.empty()) std::memcpy(lent->data(), bytes.data(), bytes.size());
  return respond(std::move(*lent), bytes.size());
}

Result<void> Request::respond(Loan&& loan, std::size_t size) {
  if (core_ == nullptr) return fail(Code::kInvalidArgument, "this request is answered already");
  return done(core_->respond(*this, loan, size));
}

Result<void> Request::respond_error(Code code, std::string_view text) {
  if (core_ == nullptr) return fail(Code::kInvalidArgument, "this request is answered already");
  return done(core_->respond_error(*this, code, text));
}

Result<void> Request::done(Result<void> sent) {
  // Nobody is there any more: neither can another answer reach it.
  if (sent || sent.error().code == Code::kPeerLost) {
    core_->finish(*this, sent.has_value());
    core_.reset();
  }
  return sent;
}

// --- Server

Server::Server(std::shared_ptr<lane::ServerCore> core) noexcept : core_(std::move(core)) {}
Server::Server(Server&&) noexcept = default;

Server& Server::operator=(Server&& other) noexcept {
  if (this == &other) return *this;
  close();
  core_ = std::move(other.core_);
  return *this;
}

Server::~Server() { close(); }

Result<Server> Server::open(ServerSettings settings) {
  auto core = lane::ServerCore::create(std::move(settings));
  if (!core) return tl::unexpected(core.error());
  return Server(std::move(*core));
}

Result<Request> Server::next(std::chrono::nanoseconds timeout) {
  Result<Request> request(tl::in_place);  // the one variable that is returned: see Consumer::take
  core_->next(request, timeout);
  return request;
}

Result<void> Server::serve(const Handler& handler) {
  for (;;) {
    auto request = next();
    if (request) {
      handler(*request);
    } else if (request.error().code == Code::kInterrupted) {
      return {};
    } else {
      return tl::unexpected(request.error());
    }
  }
}

Result<void> Server::reserve(std::size_t size) { return core_->reserve(size); }
void Server::interrupt() noexcept { core_->interrupt(); }
void Server::resume() noexcept { core_->resume(); }
ServerStats Server::stats() const { return core_->stats(); }

void Server::close() noexcept {
  if (core_ != nullptr) core_->close();
}

}  // namespace framelane
