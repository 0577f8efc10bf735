// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0
#include "state.hpp"

#include <cstdio>
#include <cstdlib>

// Counts and messages of misuse.
namespace cuota::inline v0::simulator {

thread_local constinit call_sites::site last_handle_gone{};

namespace {
constexpr std::size_t most_lines = 1000;
}

call_sites::site here() { return call_sites::of(caller.from); }

origin present_call() { return {name_of(caller.calling), here()}; }

std::string this_call() { return name_of(caller.calling) + call_sites::mark(here()); }

void note_misuse(std::atomic<std::uint64_t>& counter, std::string line) {
    auto& m = the_machine();
    ++counter;
    std::lock_guard lock{m.misuse_mutex};
    if (m.misuse_mode == on_misuse::fatal) {
        std::fprintf(stderr, "cuota simulator: misuse: %s (schedule %s)\n",
                     call_sites::resolved(std::move(line)).c_str(), schedule_in_words().c_str());
        std::fflush(stderr);
        std::abort();
    }
    if (m.misuse_lines.size() < most_lines) m.misuse_lines.push_back(std::move(line));
}

void illegal_access(device& d, std::string line) {
    line = call_sites::resolved(std::move(line));
    note_misuse(the_machine().misuse.illegal_accesses, line);
    fail_device(d, cudaErrorIllegalAddress, std::move(line));
}

cudaError_t bad_handle() {
    if (caller.refused != cudaSuccess) return caller.refused;
    auto line = this_call() + " was called with an invalid handle";
    if (auto const gone = std::exchange(last_handle_gone, {}); gone != call_sites::site::unknown)
        line += ", which was destroyed" + call_sites::mark(gone);
    note_misuse(the_machine().misuse.bad_handles, std::move(line));
    return cudaErrorInvalidResourceHandle;
}

cudaError_t mixed_devices(std::string const& things) {
    note_misuse(the_machine().misuse.bad_handles, this_call() + " mixes devices: " + things);
    return cudaErrorInvalidResourceHandle;
}

std::string describe(event const& e, origin const& from) {
    return "an event of device " + std::to_string(e.owner.index) + from.text();
}

std::string describe(stream const& s, origin const& from) {
    return "stream #" + std::to_string(s.legacy ? 1 : s.id) + " of device " + std::to_string(s.owner.index) +
           from.text();
}

std::string describe(pool const& p, origin const& from) {
    return "a pool of device " + std::to_string(p.device) + from.text();
}

}  // namespace cuota::inline v0::simulator
