// SPDX-License-Identifier: MIT
#pragma once

#include <mutex>

#include "block.hpp"
#include "handle.hpp"

namespace framelane::python {

using ProducerHandle = Handle<framelane_producer, framelane_producer_close, framelane_producer_interrupt>;

/// Sending end of a lane.
struct Producer {
  PyObject ob_base;
  ProducerHandle handle;
  Layout* layout;          // of the caps that were set last
  std::mutex* publishing;  // one thread at a time publishes and sends; taken without the GIL
  PyObject* lane;

  /// Calls `work`, which may wait, without the GIL, one thread after the other.
  template <class Work>
  framelane_code call(Work work) {
    return handle.call([&](framelane_producer*) -> framelane_code {
      const std::lock_guard lock(*publishing);
      return work();
    });
  }
};

/// A slot lent for writing.
struct Loan : Block {
  Producer* producer;
  framelane_frame_info info;
  PyObject* side_data;  // bytes, or nullptr
  int published;        // 1: sent, 0: dropped by the policy, -1: not published
};

/// Options that publish `bytes` (nullptr: none), which must outlive them, beside a frame. False with an exception set.
bool side_data_of(PyObject* bytes, framelane_publish_options& options);
/// A loan of `size` bytes. nullptr with an exception set.
PyObject* make_loan(Producer* producer, std::size_t size);
/// True or False (the policy dropped it); nullptr with an exception set, then the loan is still one.
PyObject* publish_loan(Loan* loan);

}  // namespace framelane::python
