// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/data/loader/loader_state.hpp>

#include <optional>

#include "fuzz/fuzz.hpp"

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
    std::optional<cuota::loader_state> state;
    fuzz::is_read_or_refused(size, 0, [&] {
        try {
            state = cuota::loader_state::parse(fuzz::text_of(data, size));
        } catch (cuota::usage_error const&) {}  // the documented error for an invalid text
    });
    if (state)
        fuzz::expect(cuota::loader_state::parse(state->text()) == *state, "a state comes back from its text");
    return 0;
}
