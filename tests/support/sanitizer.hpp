// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Detects sanitizers, which make some tests slow and others impossible.
#pragma once

namespace support {

#if defined(__has_feature)
#define CUOTA_HAS_FEATURE(x) __has_feature(x)
#else
#define CUOTA_HAS_FEATURE(x) 0
#endif
#if defined(__SANITIZE_THREAD__) || CUOTA_HAS_FEATURE(thread_sanitizer)
inline constexpr bool under_thread_sanitizer = true;
#else
inline constexpr bool under_thread_sanitizer = false;
#endif
#if defined(__SANITIZE_ADDRESS__) || CUOTA_HAS_FEATURE(address_sanitizer)
inline constexpr bool under_address_sanitizer = true;
#else
inline constexpr bool under_address_sanitizer = false;
#endif

}  // namespace support
