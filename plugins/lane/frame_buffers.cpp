// SPDX-License-Identifier: MIT
#include "lane/frame_buffers.hpp"

#include <mutex>
#include <vector>

#include "lane/lane_memory.hpp"

namespace framelane::gst {
namespace {

// A GstBufferPool only because that is how a buffer finds its way back. It is never activated: it has no buffers of its
// own to allocate or to wait for.
class Shells {
 public:
  void configure(GstAllocator* allocator, const Media& media, const std::optional<VideoLayout>& layout) {
    allocator_.reset(GST_ALLOCATOR_CAST(gst_object_ref(allocator)));
    media_ = media;
    layout_ = layout;
  }

  GstBuffer* acquire();
  void recycle(GstBuffer* buffer);

 private:
  AllocatorPtr allocator_;
  Media media_;
  std::optional<VideoLayout> layout_;
  std::mutex mutex_;
  std::vector<BufferPtr> shells_;
};

GstBuffer* Shells::acquire() {
  {
    const std::lock_guard lock(mutex_);
    if (!shells_.empty()) {
      GstBuffer* const buffer = shells_.back().release();
      shells_.pop_back();
      return buffer;
    }
  }
  GstBuffer* const buffer = gst_buffer_new();
  if (layout_) {
    GstMeta& meta = media_.add_meta(buffer, *layout_)->meta;
    meta.flags = static_cast<GstMetaFlags>(meta.flags | GST_META_FLAG_POOLED);
  }
  return buffer;
}

void Shells::recycle(GstBuffer* buffer) {
  constexpr std::size_t kMost = 64;  // more than consumers hold, unless a queue takes copies without end
  GstMemory* const memory = gst_buffer_n_memory(buffer) == 1 ? gst_buffer_peek_memory(buffer, 0) : nullptr;
  // Somebody else may have the memory, or parts of it, in a buffer of their own.
  const bool alone = memory != nullptr && lane_memory(memory, allocator_.get()) != nullptr &&
                     memory->parent == nullptr && GST_MINI_OBJECT_REFCOUNT_VALUE(memory) == 1;
  if (alone) {
    empty(memory);
  } else {
    gst_buffer_remove_all_memory(buffer);
  }
  BufferPtr shell(buffer);  // one too many is freed behind the lock
  const std::lock_guard lock(mutex_);
  if (shells_.size() < kMost) shells_.push_back(std::move(shell));
}

// --- GObject

struct Instance {
  GstBufferPool parent;
  Shells shells;
};

Shells& shells_of(gpointer object) { return static_cast<Instance*>(object)->shells; }

GstFlowReturn acquire_buffer(GstBufferPool* pool, GstBuffer** buffer, GstBufferPoolAcquireParams*) {
  *buffer = shells_of(pool).acquire();
  return GST_FLOW_OK;
}

void release_buffer(GstBufferPool* pool, GstBuffer* buffer) { shells_of(pool).recycle(buffer); }

void finalize(GObject* object) {
  GObjectClass* const parent = G_OBJECT_CLASS(g_type_class_peek(GST_TYPE_BUFFER_POOL));
  std::destroy_at(&shells_of(object));
  parent->finalize(object);
}

void class_init(gpointer klass, gpointer) {
  G_OBJECT_CLASS(klass)->finalize = finalize;
  GST_BUFFER_POOL_CLASS(klass)->acquire_buffer = acquire_buffer;
  GST_BUFFER_POOL_CLASS(klass)->release_buffer = release_buffer;
}

void instance_init(GTypeInstance* instance, gpointer) { std::construct_at(&shells_of(instance)); }

GType pool_type() {
  static const GType type =
      g_type_register_static_simple(GST_TYPE_BUFFER_POOL, "FramelaneFramePool", sizeof(GstBufferPoolClass), class_init,
                                    sizeof(Instance), instance_init, static_cast<GTypeFlags>(0));
  return type;
}

}  // namespace

FrameBuffers::FrameBuffers() : allocator_(new_lane_allocator(nullptr)) { set_layout({}, {}); }

// Buffers that are still out go back to the pool that they came from, and end with it.
void FrameBuffers::set_layout(const Media& media, const std::optional<VideoLayout>& layout) {
  GObject* const pool = G_OBJECT(g_object_new(pool_type(), nullptr));
  pool_.reset(GST_OBJECT_CAST(gst_object_ref_sink(pool)));
  shells_of(pool).configure(allocator_.get(), media, layout);
}

BufferPtr FrameBuffers::wrap(Frame&& frame, gsize size) {
  if (size == 0) return BufferPtr(gst_buffer_new());
  GstBuffer* buffer = nullptr;
  gst_buffer_pool_acquire_buffer(GST_BUFFER_POOL_CAST(pool_.get()), &buffer, nullptr);
  if (gst_buffer_n_memory(buffer) == 0) {
    gst_buffer_append_memory(buffer, wrap_frame(allocator_.get(), std::move(frame), size));
  } else {
    fill(gst_buffer_peek_memory(buffer, 0), std::move(frame), size);
  }
  GST_BUFFER_FLAG_UNSET(buffer, GST_BUFFER_FLAG_TAG_MEMORY);
  return BufferPtr(buffer);
}

BufferPtr FrameBuffers::wrap(Frame&& frame, const std::vector<gsize>& memories) {
  BufferPtr buffer(gst_buffer_new());
  const gsize all = frame.size();
  GstMemory* const whole = wrap_frame(allocator_.get(), std::move(frame), all);
  gssize offset = 0;
  for (const gsize size : memories) {
    gst_buffer_append_memory(buffer.get(), gst_memory_share(whole, offset, static_cast<gssize>(size)));
    offset += static_cast<gssize>(size);
  }
  gst_memory_unref(whole);  // each part keeps it
  return buffer;
}

}  // namespace framelane::gst
