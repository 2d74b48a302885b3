// SPDX-License-Identifier: MIT
#include "lane/slot_pool.hpp"

#include <mutex>
#include <vector>

#include <gst/video/video.h>

#define GST_CAT_DEFAULT lane_debug
#include "lane/debug.hpp"
#include "lane/gst_ptr.hpp"

namespace framelane::gst {
namespace {

// A buffer's return says nothing about its slot: consumers may read it, upstream may keep the memory. So the pool
// recycles empty buffers with their meta, and each acquired buffer gets another slot.
class SlotPool {
 public:
  void offer(std::shared_ptr<Slots> slots, GstAllocator* allocator) {
    slots_ = std::move(slots);
    allocator_.reset(GST_ALLOCATOR_CAST(gst_object_ref(allocator)));
  }

  bool configure(GstStructure* config);
  void start() { slots_->reserve(info_.size); }
  void stop();
  GstBuffer* acquire();
  void recycle(GstBuffer* buffer);

 private:
  GstBuffer* new_shell();

  std::shared_ptr<Slots> slots_;
  AllocatorPtr allocator_;
  GstVideoInfo info_{};  // with the padding that upstream asked for
  GstVideoAlignment align_{};
  bool add_meta_ = false;
  std::mutex mutex_;
  std::vector<BufferPtr> shells_;
};

bool SlotPool::configure(GstStructure* config) {
  GstCaps* caps = nullptr;
  guint size = 0;
  guint min = 0;
  guint max = 0;
  GstVideoInfo info;
  if (!gst_buffer_pool_config_get_params(config, &caps, &size, &min, &max)) return false;
  if (caps == nullptr || !gst_video_info_from_caps(&info, caps)) return false;
  add_meta_ = gst_buffer_pool_config_has_option(config, GST_BUFFER_POOL_OPTION_VIDEO_META);
  gst_video_alignment_reset(&align_);
  if (add_meta_ && gst_buffer_pool_config_has_option(config, GST_BUFFER_POOL_OPTION_VIDEO_ALIGNMENT)) {
    gst_buffer_pool_config_get_video_alignment(config, &align_);
    if (!gst_video_info_align(&info, &align_)) return false;
    gst_buffer_pool_config_set_video_alignment(config, &align_);
  }
  info.size = std::max<gsize>(info.size, size);
  info_ = info;
  gst_buffer_pool_config_set_params(config, caps, static_cast<guint>(info.size), min, max);
  return true;
}

void SlotPool::stop() {
  std::vector<BufferPtr> shells;
  const std::lock_guard lock(mutex_);
  shells.swap(shells_);
}

GstBuffer* SlotPool::new_shell() {
  GstBuffer* const buffer = gst_buffer_new();
  if (!add_meta_) return buffer;
  GstVideoMeta* const meta = gst_buffer_add_video_meta_full(
      buffer, GST_VIDEO_FRAME_FLAG_NONE, GST_VIDEO_INFO_FORMAT(&info_),
      static_cast<guint>(GST_VIDEO_INFO_WIDTH(&info_)), static_cast<guint>(GST_VIDEO_INFO_HEIGHT(&info_)),
      GST_VIDEO_INFO_N_PLANES(&info_), info_.offset, info_.stride);
  gst_video_meta_set_alignment(meta, align_);
  meta->meta.flags = static_cast<GstMetaFlags>(meta->meta.flags | GST_META_FLAG_POOLED);
  return buffer;
}

GstBuffer* SlotPool::acquire() {
  GstBuffer* buffer = nullptr;
  {
    const std::lock_guard lock(mutex_);
    if (!shells_.empty()) {
      buffer = shells_.back().release();
      shells_.pop_back();
    }
  }
  if (buffer == nullptr) buffer = new_shell();
  GstMemory* memory = allocate_slot(allocator_.get(), info_.size);
  if (memory == nullptr) {
    GstAllocationParams params;
    gst_allocation_params_init(&params);
    params.align = 63;
    memory = allocate_overflow(allocator_.get(), info_.size, &params);
  }
  gst_buffer_append_memory(buffer, memory);
  GST_BUFFER_FLAG_UNSET(buffer, GST_BUFFER_FLAG_TAG_MEMORY);
  return buffer;
}

void SlotPool::recycle(GstBuffer* buffer) {
  const std::lock_guard lock(mutex_);
  shells_.emplace_back(buffer);
}

// --- GObject

struct Instance {
  GstBufferPool parent;
  SlotPool pool;
};

GstBufferPoolClass* parent_class() { return GST_BUFFER_POOL_CLASS(g_type_class_peek(GST_TYPE_BUFFER_POOL)); }

SlotPool& pool_of(gpointer object) { return static_cast<Instance*>(object)->pool; }

const gchar** get_options(GstBufferPool*) {
  static const gchar* options[] = {GST_BUFFER_POOL_OPTION_VIDEO_META, GST_BUFFER_POOL_OPTION_VIDEO_ALIGNMENT, nullptr};
  return options;
}

gboolean set_config(GstBufferPool* pool, GstStructure* config) {
  return pool_of(pool).configure(config) && parent_class()->set_config(pool, config);
}

// Not chained up: the base class would allocate the minimum ahead and keep it, and a loan that nobody fills is lost to
// others.
gboolean start(GstBufferPool* pool) {
  pool_of(pool).start();
  return TRUE;
}

gboolean stop(GstBufferPool* pool) {
  pool_of(pool).stop();
  return parent_class()->stop(pool);
}

GstFlowReturn acquire_buffer(GstBufferPool* pool, GstBuffer** buffer, GstBufferPoolAcquireParams*) {
  if (GST_BUFFER_POOL_IS_FLUSHING(pool)) return GST_FLOW_FLUSHING;
  *buffer = pool_of(pool).acquire();
  return GST_FLOW_OK;
}

void reset_buffer(GstBufferPool* pool, GstBuffer* buffer) {
  gst_buffer_remove_all_memory(buffer);
  parent_class()->reset_buffer(pool, buffer);
  GST_BUFFER_FLAG_UNSET(buffer, GST_BUFFER_FLAG_TAG_MEMORY);
}

void release_buffer(GstBufferPool* pool, GstBuffer* buffer) { pool_of(pool).recycle(buffer); }

void finalize(GObject* object) {
  GObjectClass* const parent = G_OBJECT_CLASS(parent_class());
  std::destroy_at(&pool_of(object));
  parent->finalize(object);
}

void class_init(gpointer klass, gpointer) {
  G_OBJECT_CLASS(klass)->finalize = finalize;
  GstBufferPoolClass* const pool_class = GST_BUFFER_POOL_CLASS(klass);
  pool_class->get_options = get_options;
  pool_class->set_config = set_config;
  pool_class->start = start;
  pool_class->stop = stop;
  pool_class->acquire_buffer = acquire_buffer;
  pool_class->reset_buffer = reset_buffer;
  pool_class->release_buffer = release_buffer;
}

void instance_init(GTypeInstance* instance, gpointer) { std::construct_at(&pool_of(instance)); }

GType pool_type() {
  static const GType type =
      g_type_register_static_simple(GST_TYPE_BUFFER_POOL, "FramelaneSlotPool", sizeof(GstBufferPoolClass), class_init,
                                    sizeof(Instance), instance_init, static_cast<GTypeFlags>(0));
  return type;
}

}  // namespace

GstBufferPool* new_slot_pool(std::shared_ptr<Slots> slots, GstAllocator* allocator) {
  GObject* const object = G_OBJECT(g_object_new(pool_type(), nullptr));
  gst_object_ref_sink(object);
  pool_of(object).offer(std::move(slots), allocator);
  return GST_BUFFER_POOL_CAST(object);
}

}  // namespace framelane::gst
