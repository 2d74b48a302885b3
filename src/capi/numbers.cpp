// SPDX-License-Identifier: MIT
// The numbers of framelane.h are those of C++, for ever: what the other files cast is what it says.
#include <iterator>
#include <type_traits>

#include "framelane/base/log.hpp"
#include "framelane/base/result.hpp"
#include "framelane/descriptor/descriptor.hpp"
#include "framelane/format/caps.hpp"
#include "framelane/format/event.hpp"
#include "framelane/format/plane_layout.hpp"
#include "framelane/framelane.h"
#include "framelane/lane/observer.hpp"
#include "framelane/lane/producer.hpp"
#include "framelane/lane/settings.hpp"

namespace framelane::capi {
namespace {

template <class Enum>
constexpr bool is(Enum value, int number) noexcept {
  static_assert(std::is_enum_v<Enum>);
  return static_cast<int>(value) == number;
}

static_assert(is(Code::kTimeout, FRAMELANE_TIMEOUT));
static_assert(is(Code::kEndOfStream, FRAMELANE_END_OF_STREAM));
static_assert(is(Code::kInterrupted, FRAMELANE_INTERRUPTED));
static_assert(is(Code::kPeerLost, FRAMELANE_PEER_LOST));
static_assert(is(Code::kProtocol, FRAMELANE_PROTOCOL));
static_assert(is(Code::kInvalidArgument, FRAMELANE_INVALID_ARGUMENT));
static_assert(is(Code::kNotFound, FRAMELANE_NOT_FOUND));
static_assert(is(Code::kInUse, FRAMELANE_IN_USE));
static_assert(is(Code::kPermission, FRAMELANE_PERMISSION));
static_assert(is(Code::kTooLarge, FRAMELANE_TOO_LARGE));
static_assert(is(Code::kNoMemory, FRAMELANE_NO_MEMORY));
static_assert(is(Code::kFull, FRAMELANE_FULL));
static_assert(is(Code::kRefused, FRAMELANE_REFUSED));
static_assert(is(Code::kUnsupported, FRAMELANE_UNSUPPORTED));
static_assert(is(Code::kSystem, FRAMELANE_SYSTEM));

static_assert(is(Leaky::kNo, FRAMELANE_LEAKY_NO));
static_assert(is(Leaky::kUpstream, FRAMELANE_LEAKY_UPSTREAM));
static_assert(is(Leaky::kDownstream, FRAMELANE_LEAKY_DOWNSTREAM));

static_assert(is(Mode::kEvery, FRAMELANE_MODE_EVERY));
static_assert(is(Mode::kLatest, FRAMELANE_MODE_LATEST));

static_assert(is(Spin::kAdaptive, FRAMELANE_SPIN_ADAPTIVE));
static_assert(is(Spin::kBusy, FRAMELANE_SPIN_BUSY));
static_assert(is(Spin::kOff, FRAMELANE_SPIN_OFF));

static_assert(is(Stamps::kAuto, FRAMELANE_STAMPS_AUTO));
static_assert(is(Stamps::kOn, FRAMELANE_STAMPS_ON));
static_assert(is(Stamps::kOff, FRAMELANE_STAMPS_OFF));

static_assert(is(Transport::kAuto, FRAMELANE_TRANSPORT_AUTO));
static_assert(is(Transport::kShm, FRAMELANE_TRANSPORT_SHM));
static_assert(is(Transport::kUds, FRAMELANE_TRANSPORT_UDS));
static_assert(is(Transport::kTcp, FRAMELANE_TRANSPORT_TCP));

static_assert(is(descriptor::Transport::kAny, FRAMELANE_TRANSPORT_AUTO));
static_assert(is(descriptor::Transport::kShm, FRAMELANE_TRANSPORT_SHM));
static_assert(is(descriptor::Transport::kUds, FRAMELANE_TRANSPORT_UDS));
static_assert(is(descriptor::Transport::kTcp, FRAMELANE_TRANSPORT_TCP));
static_assert(is(descriptor::Transport::kPipe, FRAMELANE_TRANSPORT_PIPE));

static_assert(is(Wake::kNow, FRAMELANE_WAKE_NOW));
static_assert(is(Wake::kLater, FRAMELANE_WAKE_LATER));

static_assert(is(Published::kSent, FRAMELANE_PUBLISHED));
static_assert(is(Published::kDropped, FRAMELANE_DROPPED));

static_assert(is(LaneState::kAlive, FRAMELANE_LANE_ALIVE));
static_assert(is(LaneState::kBusy, FRAMELANE_LANE_BUSY));
static_assert(is(LaneState::kStale, FRAMELANE_LANE_STALE));
static_assert(is(LaneState::kForeign, FRAMELANE_LANE_FOREIGN));

static_assert(is(base::LogLevel::kError, FRAMELANE_LOG_ERROR));
static_assert(is(base::LogLevel::kWarning, FRAMELANE_LOG_WARNING));
static_assert(is(base::LogLevel::kInfo, FRAMELANE_LOG_INFO));
static_assert(is(base::LogLevel::kDebug, FRAMELANE_LOG_DEBUG));

static_assert(is(format::EventType::kStreamStart, FRAMELANE_EVENT_STREAM_START));
static_assert(is(format::EventType::kCaps, FRAMELANE_EVENT_CAPS));
static_assert(is(format::EventType::kSegment, FRAMELANE_EVENT_SEGMENT));
static_assert(is(format::EventType::kTag, FRAMELANE_EVENT_TAG));
static_assert(is(format::EventType::kGap, FRAMELANE_EVENT_GAP));
static_assert(is(format::EventType::kCustom, FRAMELANE_EVENT_CUSTOM));
static_assert(is(format::EventType::kEndOfStream, FRAMELANE_EVENT_END_OF_STREAM));
static_assert(is(format::EventType::kState, FRAMELANE_EVENT_STATE));
static_assert(is(format::EventType::kFlushStart, FRAMELANE_EVENT_FLUSH_START));
static_assert(is(format::EventType::kFlushStop, FRAMELANE_EVENT_FLUSH_STOP));

static_assert(is(format::SegmentFormat::kUndefined, FRAMELANE_SEGMENT_UNDEFINED));
static_assert(is(format::SegmentFormat::kDefault, FRAMELANE_SEGMENT_DEFAULT));
static_assert(is(format::SegmentFormat::kBytes, FRAMELANE_SEGMENT_BYTES));
static_assert(is(format::SegmentFormat::kTime, FRAMELANE_SEGMENT_TIME));

static_assert(is(format::RequestType::kKeyUnit, FRAMELANE_UPSTREAM_KEY_UNIT));
static_assert(is(format::RequestType::kCustom, FRAMELANE_UPSTREAM_CUSTOM));
static_assert(is(format::RequestType::kQos, FRAMELANE_UPSTREAM_QOS));

static_assert(is(format::kDiscont, FRAMELANE_FLAG_DISCONT));
static_assert(is(format::kDeltaUnit, FRAMELANE_FLAG_DELTA_UNIT));
static_assert(is(format::kHeader, FRAMELANE_FLAG_HEADER));
static_assert(is(format::kGap, FRAMELANE_FLAG_GAP));
static_assert(is(format::kCorrupted, FRAMELANE_FLAG_CORRUPTED));
static_assert(is(format::kMarker, FRAMELANE_FLAG_MARKER));
static_assert(is(format::kDroppable, FRAMELANE_FLAG_DROPPABLE));
static_assert(is(format::kResync, FRAMELANE_FLAG_RESYNC));
static_assert(is(format::kDecodeOnly, FRAMELANE_FLAG_DECODE_ONLY));
static_assert(is(format::kLive, FRAMELANE_FLAG_LIVE));
static_assert(is(format::kNonDroppable, FRAMELANE_FLAG_NON_DROPPABLE));

static_assert(is(format::TensorType::kInt32, FRAMELANE_TENSOR_INT32));
static_assert(is(format::TensorType::kUint32, FRAMELANE_TENSOR_UINT32));
static_assert(is(format::TensorType::kInt16, FRAMELANE_TENSOR_INT16));
static_assert(is(format::TensorType::kUint16, FRAMELANE_TENSOR_UINT16));
static_assert(is(format::TensorType::kInt8, FRAMELANE_TENSOR_INT8));
static_assert(is(format::TensorType::kUint8, FRAMELANE_TENSOR_UINT8));
static_assert(is(format::TensorType::kFloat64, FRAMELANE_TENSOR_FLOAT64));
static_assert(is(format::TensorType::kFloat32, FRAMELANE_TENSOR_FLOAT32));
static_assert(is(format::TensorType::kInt64, FRAMELANE_TENSOR_INT64));
static_assert(is(format::TensorType::kUint64, FRAMELANE_TENSOR_UINT64));
static_assert(is(format::TensorType::kFloat16, FRAMELANE_TENSOR_FLOAT16));

static_assert(format::kNoTime == FRAMELANE_NO_TIME && format::kNoClockTime == FRAMELANE_NO_CLOCK_TIME);
static_assert(kForever.count() == FRAMELANE_FOREVER);
static_assert(std::size(decltype(framelane_video_format::planes){}) == format::kMaxPlanes);

}  // namespace
}  // namespace framelane::capi
