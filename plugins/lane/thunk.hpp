// SPDX-License-Identifier: MIT
#pragma once

namespace framelane::gst {

/// Makes the C function that GStreamer calls from a member function: `klass->start = Thunk<&LaneSrc::start>::call;`.
/// The class says by `static T& of(void*)` how it is found from its GObject.
template <auto Method>
struct Thunk;

template <class T, class R, class... Args, R (T::*Method)(Args...)>
struct Thunk<Method> {
  template <class Object>
  static R call(Object* object, Args... args) {
    return (T::of(object).*Method)(args...);
  }
};

}  // namespace framelane::gst
