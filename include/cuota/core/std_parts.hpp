// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Of `algorithm`, `chrono`, `functional` and `memory` what declarations need: min and max, durations and clocks,
/// std::function, smart pointers. Those headers bring sorting, calendars, streams and maps. Where declarations are read alone,
/// libstdc++'s own headers of these parts stand in for them: a fifth of the time that cuota.hpp would take.
#pragma once

#include <utility>

#include <cuota/core/config.hpp>

#if CUOTA_DEFINE || !defined(__GLIBCXX__) || !__has_include(<bits/chrono.h>)
#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#else
#include <bits/chrono.h>
#include <bits/shared_ptr.h>
#include <bits/std_function.h>
#include <bits/stl_algobase.h>
#include <bits/unique_ptr.h>
#endif
