// SPDX-License-Identifier: MIT
#include "dlpack.hpp"
#include "info.hpp"
#include "producer.hpp"
#include "types.hpp"

namespace framelane::python {
namespace {

PyTypeObject* loan_type;

constexpr Words kWords = {"loan", "take another one"};

Loan* loan_of(PyObject* self) { return static_cast<Loan*>(block_of(self)); }

void give_back(void* loan) { framelane_loan_discard(static_cast<framelane_loan*>(loan)); }

PyObject* publish(PyObject* self, PyObject*) { return publish_loan(loan_of(self)); }

PyObject* leave(PyObject* self, PyObject* arguments) {
  PyObject *type = nullptr, *value = nullptr, *traceback = nullptr;
  if (PyArg_ParseTuple(arguments, "OOO", &type, &value, &traceback) == 0) return nullptr;
  Loan* const loan = loan_of(self);
  if (loan->lease != nullptr && type == Py_None) {
    const Ref sent(publish_loan(loan));
    if (!sent) {
      loan->give_back();
      return nullptr;
    }
  }
  loan->give_back();
  Py_RETURN_NONE;
}

PyObject* info_value(PyObject* self, void* name) {
  return get_info(loan_of(self)->info, static_cast<const char*>(name));
}

int set_info_value(PyObject* self, PyObject* value, void* name) {
  return set_info(loan_of(self)->info, static_cast<const char*>(name), value) == 1 ? 0 : -1;
}

PyObject* side_data(PyObject* self, void*) {
  PyObject* const bytes = loan_of(self)->side_data;
  return bytes == nullptr ? PyBytes_FromStringAndSize(nullptr, 0) : Ref::of(bytes).release();
}

int set_side_data(PyObject* self, PyObject* value, void*) {
  PyObject* const bytes = value == nullptr ? PyBytes_FromStringAndSize(nullptr, 0) : PyBytes_FromObject(value);
  if (bytes == nullptr) return -1;
  Ref old(std::exchange(loan_of(self)->side_data, bytes));
  return 0;
}

PyObject* size(PyObject* self, void*) { return PyLong_FromSize_t(loan_of(self)->size); }

/// Only what has no shape by its caps may become shorter.
int set_size(PyObject* self, PyObject* value, void*) {
  Loan* const loan = loan_of(self);
  if (value == nullptr || !loan->check()) return -1;
  const std::size_t size = PyLong_AsSize_t(value);
  if (PyErr_Occurred() != nullptr) return -1;
  const std::size_t capacity = framelane_loan_capacity(static_cast<framelane_loan*>(loan->lease->handle()));
  const bool fixed =
      loan->layout != nullptr && !loan->layout->arrays().empty() && loan->layout->kind() != FRAMELANE_FORMAT_AUDIO;
  if (size > capacity || (fixed && size < loan->layout->unit())) {
    PyErr_Format(PyExc_ValueError, "a frame of %zu bytes: the loan has room for %zu, and the caps ask for %zu", size,
                 capacity, fixed ? static_cast<std::size_t>(loan->layout->unit()) : std::size_t{0});
    return -1;
  }
  if (loan->own != nullptr && loan->lease->is_shared()) {
    PyErr_SetString(PyExc_BufferError, "the size can't change while a view of the loan is alive");
    return -1;
  }
  delete std::exchange(loan->own, nullptr);
  loan->size = size;
  return 0;
}

PyObject* published(PyObject* self, void*) {
  const int state = loan_of(self)->published;
  if (state < 0) Py_RETURN_NONE;
  return PyBool_FromLong(state);
}

PyObject* slot(PyObject* self, void*) {
  Loan* const loan = loan_of(self);
  if (!loan->check()) return nullptr;
  return PyLong_FromLong(framelane_loan_slot(static_cast<framelane_loan*>(loan->lease->handle())));
}

void dealloc(PyObject* self) {
  Loan* const loan = loan_of(self);
  Py_XDECREF(loan->side_data);
  if (loan->producer != nullptr) Py_DECREF(&loan->producer->ob_base);
  block_dealloc(self);
}

PyMethodDef methods[] = {FRAMELANE_BLOCK_METHODS,
                         {"publish", publish, METH_NOARGS,
                          "publish()\n--\n\nPublishes it now. True: sent; False: the lane was full, and the policy "
                          "dropped it. Views that live on\n"
                          "keep the slot, and what is written through them then changes what consumers read."},
                         {"discard", block_release, METH_NOARGS, "discard()\n--\n\nGives the slot back unpublished."},
                         {"__enter__", block_enter, METH_NOARGS, nullptr},
                         {"__exit__", leave, METH_VARARGS, nullptr},
                         {nullptr, nullptr, 0, nullptr}};

#define INFO(name, doc) \
  { #name, info_value, set_info_value, doc, const_cast < char*>(#name) }
PyGetSetDef properties[] = {
    FRAMELANE_BLOCK_PROPERTIES,
    INFO(pts, "Presentation time, ns, or None."),
    INFO(dts, "Decoding time, ns, or None."),
    INFO(duration, "ns, or None."),
    INFO(offset, "In units of the format, or None."),
    INFO(offset_end, "In units of the format, or None."),
    INFO(due, "When it is due, ns of CLOCK_MONOTONIC, or None."),
    INFO(capture, "When its content was captured, ns of CLOCK_MONOTONIC, or None."),
    INFO(flags, "Bits of framelane.Flag."),
    INFO(type_id, "The application's own number for the kind of payload; 0: none."),
    {"side_data", side_data, set_side_data, "Bytes that travel beside the payload.", nullptr},
    {"size", size, set_size, "Bytes to publish; may be set, up to what was asked for.", nullptr},
    {"published", published, nullptr, "None before; then True, or False when the policy dropped it.", nullptr},
    {"slot", slot, nullptr, "Index of its slot; -1 while a small payload lies in the loan itself.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr}};
#undef INFO

const char kDoc[] =
    "A slot lent for writing: numpy.asarray(loan), loan[\"mel\"], loan.numpy() are the memory that consumers will\n"
    "read. `loan[\"mel\"] = x` and `loan[...] = x` copy, and refuse what has another shape or type. Leaving its\n"
    "`with` block publishes it; when the block raises, it is discarded.";

PyType_Slot slots[] = {{Py_tp_doc, const_cast<char*>(kDoc)},
                       {Py_tp_dealloc, reinterpret_cast<void*>(dealloc)},
                       {Py_tp_methods, methods},
                       {Py_tp_getset, properties},
                       {Py_mp_subscript, reinterpret_cast<void*>(block_subscript)},
                       {Py_mp_ass_subscript, reinterpret_cast<void*>(block_ass_subscript)},
                       {Py_bf_getbuffer, reinterpret_cast<void*>(block_get_buffer)},
                       {Py_bf_releasebuffer, reinterpret_cast<void*>(block_release_buffer)},
                       {0, nullptr}};
PyType_Spec spec = {"framelane.Loan", sizeof(Loan), 0, kFinal, slots};

}  // namespace

PyObject* make_loan(Producer* producer, std::size_t size) {
  framelane_producer* const handle = producer->handle.get("producer");
  if (handle == nullptr) return nullptr;
  framelane_loan* lent = nullptr;
  framelane_code code = framelane_producer_try_loan(handle, size, &lent);
  if (code == FRAMELANE_FULL) {  // the first of its size, or a wait
    code = producer->handle.call([&](framelane_producer*) { return framelane_producer_loan(handle, size, &lent); });
  }
  if (code != FRAMELANE_OK) return raise(code);
  Lease* lease = Lease::make(lent, give_back);
  auto* const loan = lease == nullptr ? nullptr : make<Loan>(loan_type);
  if (loan == nullptr) {
    drop(lease);
    return PyErr_NoMemory();
  }
  loan->words = &kWords;
  loan->lease = lease;
  loan->layout = producer->layout;
  if (loan->layout != nullptr) loan->layout->use();
  loan->data = static_cast<std::byte*>(framelane_loan_data(lent));
  loan->size = size;
  loan->writable = true;
  loan->published = -1;
  loan->producer = producer;
  Py_INCREF(&producer->ob_base);
  framelane_frame_info_init(&loan->info, sizeof loan->info);
  return &loan->ob_base;
}

bool side_data_of(PyObject* bytes, framelane_publish_options& options) {
  framelane_publish_options_init(&options, sizeof options);
  if (bytes == nullptr) return true;
  char* data = nullptr;
  Py_ssize_t size = 0;
  if (PyBytes_AsStringAndSize(bytes, &data, &size) != 0) return false;
  options.side_data = data;
  options.side_data_size = static_cast<std::size_t>(size);
  return true;
}

PyObject* publish_loan(Loan* loan) {
  framelane_producer* const handle = loan->check() ? loan->producer->handle.get("producer") : nullptr;
  if (handle == nullptr) return nullptr;
  framelane_publish_options options;
  const Ref side_data(Ref::of(loan->side_data));  // another thread may set another one meanwhile
  if (!side_data_of(side_data.get(), options)) return nullptr;
  // From here on nobody else publishes this loan, nor gives it back.
  Lease* lease = std::exchange(loan->lease, nullptr);
  auto* const lent = static_cast<framelane_loan*>(lease->handle());
  const bool kept = lease->is_shared();  // views that live on: the slot must not be written anew under them
  std::int32_t state = FRAMELANE_PUBLISHED;
  const framelane_code code = loan->producer->call([&] {
    return kept ? framelane_producer_publish_kept(handle, lent, loan->size, &loan->info, &options, &state)
                : framelane_producer_publish(handle, lent, loan->size, &loan->info, &options, &state);
  });
  if (code != FRAMELANE_OK) {
    loan->lease = lease;
    return raise(code);
  }
  if (!kept) lease->forget();
  drop(lease);
  loan->published = state == FRAMELANE_PUBLISHED ? 1 : 0;
  return PyBool_FromLong(loan->published);
}

bool add_loan_type(PyObject* module) {
  loan_type = add_type(module, spec, "Loan");
  return loan_type != nullptr;
}

}  // namespace framelane::python
