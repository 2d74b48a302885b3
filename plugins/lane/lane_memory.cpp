// SPDX-License-Identifier: MIT
#include "lane/lane_memory.hpp"

#include "lane/slots.hpp"

namespace framelane::gst {
namespace {

constexpr const char* kMemoryType = "FramelaneMemory";
constexpr gsize kSlotAlign = 63;  // payloads start at 64 bytes

struct LaneAllocator {
  GstAllocator parent;
  std::shared_ptr<Slots> slots;
};

struct LaneAllocatorClass {
  GstAllocatorClass parent;
};

GType allocator_type();

LaneAllocator* self_of(gpointer object) { return G_TYPE_CHECK_INSTANCE_CAST(object, allocator_type(), LaneAllocator); }

LaneMemory* as_lane(GstMemory* memory) { return reinterpret_cast<LaneMemory*>(memory); }

GQuark overflow_quark() {
  static const GQuark quark = g_quark_from_static_string("framelane-overflow");
  return quark;
}

// --- memory

gpointer map(GstMemory* memory, gsize, GstMapFlags) { return as_lane(memory)->data; }

void unmap(GstMemory*) {}

GstMemory* share(GstMemory* memory, gssize offset, gssize size) {
  GstMemory* const parent = memory->parent != nullptr ? memory->parent : memory;
  if (size == -1) size = static_cast<gssize>(memory->size) - offset;
  auto* const sub = new LaneMemory{};
  sub->data = as_lane(memory)->data;
  const auto flags = static_cast<GstMemoryFlags>(GST_MINI_OBJECT_FLAGS(parent) | GST_MINI_OBJECT_FLAG_LOCK_READONLY);
  gst_memory_init(&sub->base, flags, memory->allocator, parent, memory->maxsize, memory->align,
                  memory->offset + static_cast<gsize>(offset), static_cast<gsize>(size));
  return &sub->base;
}

void free_memory(GstAllocator* allocator, GstMemory* memory) {
  LaneMemory* const freed = as_lane(memory);
  Slots* const slots = self_of(allocator)->slots.get();
  if (slots != nullptr && std::holds_alternative<Loan>(freed->owner)) slots->forget(*freed);
  delete freed;
}

GstMemory* wrap_loan(GstAllocator* allocator, Loan&& loan, gsize size) {
  auto* const memory = new LaneMemory{};
  memory->owner = std::move(loan);
  memory->data = std::get<Loan>(memory->owner).data();
  gst_memory_init(&memory->base, static_cast<GstMemoryFlags>(0), allocator, nullptr, size, kSlotAlign, 0, size);
  return &memory->base;
}

// --- allocator

GstMemory* allocate(GstAllocator* allocator, gsize size, GstAllocationParams* params) {
  const gsize total = size + params->prefix + params->padding;
  GstMemory* const memory = (params->align & ~kSlotAlign) == 0 ? allocate_slot(allocator, total) : nullptr;
  if (memory == nullptr) return allocate_overflow(allocator, size, params);
  memory->offset = params->prefix;
  memory->size = size;
  std::byte* const data = as_lane(memory)->data;
  if ((params->flags & GST_MEMORY_FLAG_ZERO_PREFIXED) != 0) std::fill_n(data, params->prefix, std::byte{});
  if ((params->flags & GST_MEMORY_FLAG_ZERO_PADDED) != 0) {
    std::fill_n(data + params->prefix + size, params->padding, std::byte{});
  }
  return memory;
}

void finalize(GObject* object) {
  LaneAllocator* const self = self_of(object);
  GObjectClass* const parent = G_OBJECT_CLASS(g_type_class_peek(GST_TYPE_ALLOCATOR));
  std::destroy_at(&self->slots);
  parent->finalize(object);
}

void class_init(gpointer klass, gpointer) {
  G_OBJECT_CLASS(klass)->finalize = finalize;
  GST_ALLOCATOR_CLASS(klass)->alloc = allocate;
  GST_ALLOCATOR_CLASS(klass)->free = free_memory;
}

void instance_init(GTypeInstance* instance, gpointer) {
  auto* const self = reinterpret_cast<LaneAllocator*>(instance);
  std::construct_at(&self->slots);
  self->parent.mem_type = kMemoryType;
  self->parent.mem_map = map;
  self->parent.mem_unmap = unmap;
  self->parent.mem_share = share;
  GST_OBJECT_FLAG_SET(self, GST_ALLOCATOR_FLAG_CUSTOM_ALLOC);
}

GType allocator_type() {
  static const GType type =
      g_type_register_static_simple(GST_TYPE_ALLOCATOR, "FramelaneAllocator", sizeof(LaneAllocatorClass), class_init,
                                    sizeof(LaneAllocator), instance_init, static_cast<GTypeFlags>(0));
  return type;
}

}  // namespace

GstAllocator* new_lane_allocator(std::shared_ptr<Slots> slots) {
  GObject* const object = G_OBJECT(g_object_new(allocator_type(), nullptr));
  gst_object_ref_sink(object);
  self_of(object)->slots = std::move(slots);
  return GST_ALLOCATOR_CAST(object);
}

LaneMemory* lane_memory(GstMemory* memory, const GstAllocator* allocator) {
  return memory->allocator == allocator ? as_lane(memory) : nullptr;
}

GstMemory* allocate_slot(GstAllocator* allocator, gsize size) {
  Slots* const slots = self_of(allocator)->slots.get();
  if (slots == nullptr) return nullptr;
  auto loan = slots->lend(size);
  return loan ? wrap_loan(allocator, std::move(*loan), size) : nullptr;
}

GstMemory* allocate_overflow(GstAllocator* allocator, gsize size, const GstAllocationParams* params) {
  if (Slots* const slots = self_of(allocator)->slots.get(); slots != nullptr) slots->count_overflow();
  GstAllocationParams copy = *params;
  GstMemory* const memory = gst_allocator_alloc(nullptr, size, &copy);
  const gsize wanted = params->prefix + size + params->padding;
  if (memory != nullptr) {
    gst_mini_object_set_qdata(GST_MINI_OBJECT_CAST(memory), overflow_quark(), GSIZE_TO_POINTER(wanted), nullptr);
  }
  return memory;
}

gsize overflow_size(GstMemory* memory) {
  return GPOINTER_TO_SIZE(gst_mini_object_get_qdata(GST_MINI_OBJECT_CAST(memory), overflow_quark()));
}

GstMemory* wrap_frame(GstAllocator* allocator, Frame&& frame, gsize size) {
  auto* const memory = new LaneMemory{};
  gst_memory_init(&memory->base, GST_MEMORY_FLAG_READONLY, allocator, nullptr, size, kSlotAlign, 0, size);
  fill(&memory->base, std::move(frame), size);
  return &memory->base;
}

void empty(GstMemory* memory) noexcept { as_lane(memory)->owner = std::monostate(); }

void fill(GstMemory* memory, Frame&& frame, gsize size) noexcept {
  LaneMemory& lane = *as_lane(memory);
  lane.owner = std::move(frame);
  // Never written: the memory is READONLY, and the mapping is, too.
  lane.data = const_cast<std::byte*>(std::get<Frame>(lane.owner).data());
  memory->maxsize = memory->size = size;
  memory->offset = 0;
}

}  // namespace framelane::gst
