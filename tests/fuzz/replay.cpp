// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

// A main for the fuzz targets without libFuzzer: runs each named file, and each file in a named folder, as an input once. Inputs that were
// found by fuzzing thus remain regression tests for every compiler.
#include <algorithm>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "fuzz/fuzz.hpp"

int main(int count, char** arguments) try {
    std::vector<std::filesystem::path> inputs;
    for (int i = 1; i < count; ++i) {
        std::filesystem::path const named{arguments[i]};
        if (!std::filesystem::is_directory(named)) inputs.push_back(named);
        else
            for (auto const& entry : std::filesystem::recursive_directory_iterator{named})
                if (entry.is_regular_file()) inputs.push_back(entry.path());
    }
    std::sort(inputs.begin(), inputs.end());
    for (auto const& path : inputs) {
        std::ifstream from{path, std::ios::binary};
        std::vector<char> const bytes{std::istreambuf_iterator<char>{from}, {}};
        // On the heap, with the exact size, so that AddressSanitizer detects reads beyond the end.
        std::printf("%s\n", path.c_str());
        std::fflush(stdout);  // so that the last line names the input that ended the program
        LLVMFuzzerTestOneInput(reinterpret_cast<std::uint8_t const*>(bytes.data()), bytes.size());
    }
    std::printf("%zu inputs\n", inputs.size());
    return inputs.empty() ? 1 : 0;
} catch (std::exception const& error) {
    std::fprintf(stderr, "fuzz: %s\n", error.what());
    return 1;
}
