// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// The parts of `algorithm`, `chrono`, `functional`, `iterator`, `memory`, `mutex` and `stop_token` that most of cuota needs: libstdc++'s
/// internal headers compile in a third of the time (docs/design/compilation.md).
#pragma once

#include <utility>

#include <cuota/core/config.hpp>

#if !defined(__GLIBCXX__) || !__has_include(<bits/chrono.h>) || !__has_include(<bits/std_mutex.h>)
#include <algorithm>
#include <chrono>
#include <functional>
#include <iterator>
#include <memory>
#include <mutex>
#include <stop_token>
#else
#include <bits/chrono.h>
#include <bits/std_function.h>
#include <bits/std_mutex.h>
#include <bits/stl_algobase.h>
#include <bits/stl_iterator.h>

namespace std {
_GLIBCXX_BEGIN_NAMESPACE_VERSION
class stop_token;
_GLIBCXX_END_NAMESPACE_VERSION
}  // namespace std
#endif
