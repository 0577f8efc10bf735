// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Defines a recording that was made from another program's file.
#pragma once

#include <string>
#include <vector>

#include <cuota/report/recording/recording.hpp>

namespace cuota::inline v0 {

/// A recording made from another program's file.
/// Example: tests/report/import/pytorch_snapshot.cpp
struct imported_recording {
    recording content{};                 ///< for every function that takes a recording
    std::vector<std::string> repairs{};  ///< a sentence for each inconsistency that was corrected
};

}  // namespace cuota::inline v0
