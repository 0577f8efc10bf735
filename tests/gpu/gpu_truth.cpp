// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Tests the core of cuota by values on a GPU: each part computes on the device and checks every number. Runs on the simulated runtime too,
/// with smaller sizes.
///
///     gpu_truth [--list] [--seconds] [--reuses=N] [PART...]
///
/// Prints a line for each part, in order: `passed NAME 1.23 s: facts`, `FAILED NAME 1.23 s: why` or `skipped NAME: why`; the last line
/// counts them. Exit status: 1 if a part failed, 77 without a GPU. After a failure the other parts run, unless the device is lost.
/// --seconds adds a line with the total time; --reuses sets the number of blocks that leases_on_streams passes from one stream to another.
/// Run it alone on the device: two parts compare the driver's free memory before and after.
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include <cuota/core/error_sink.hpp>
#include <cuota/runtime/device.hpp>

#include "gpu/truth.hpp"
#include "gpu/truth_simulator.hpp"

namespace {

struct part {
    char const* name;
    std::string (*run)();
};
constexpr part parts[] = {
    {"shuffled_loader", truth::shuffled_loader},
    {"converted_on_device", truth::converted_on_device},
    {"resident", truth::resident},
    {"capture_with_pool", truth::capture_with_pool},
    {"planned_step_in_graph", truth::planned_step_in_graph},
    {"pool_grows_and_trims", truth::pool_grows_and_trims},
    {"pool_maps_elsewhere", truth::pool_maps_elsewhere},
    {"pool_divides_mappings", truth::pool_divides_mappings},
    {"leases_on_streams", truth::leases_on_streams},
    {"exact_training", truth::exact_training},
    {"limits_of_the_machine", truth::limits_of_the_machine},
    {"memory_of_graphs", truth::memory_of_graphs},
    {"refusal_beside_process", truth::refusal_beside_process},
    {"kernel_that_traps", truth::kernel_that_traps},
    {"mixed_memory", truth::mixed_memory},
};

/// Collects the errors that are reported to the error sink.
class reports {
public:
    reports() {
        cuota::set_error_sink([this](std::exception const& error) {
            std::scoped_lock const lock{guard_};
            if (++count_ == 1) first_ = error.what();
        });
    }
    /// Throws: failed if an error was reported since the last call.
    void expect_none() {
        std::scoped_lock const lock{guard_};
        std::size_t const count = count_;
        count_ = 0;
        if (count != 0)
            throw truth::failed{std::to_string(count) +
                                " errors were reported to the error sink; the first: " + first_};
    }
    void forget() {
        std::scoped_lock const lock{guard_};
        count_ = 0;
    }

private:
    std::mutex guard_;
    std::size_t count_ = 0;
    std::string first_;
};

/// Returns the reason why the device cannot be used any more; empty if it can.
[[nodiscard]] std::string why_lost() {
    cudaError_t code = cudaDeviceSynchronize();
    if (code == cudaSuccess) code = cudaGetLastError();
    if (code == cudaSuccess) return {};
    (void)cudaGetLastError();  // clears the error of one call; an error of the device persists
    code = cudaDeviceSynchronize();
    return code == cudaSuccess ? std::string{} : std::string{cudaGetErrorName(code)};
}

struct totals {
    int passed = 0, failed = 0, skipped = 0;
};

void run(part const& p, reports& reported, totals& so_far) {
    using clock = std::chrono::steady_clock;
    auto const begun = clock::now();
    auto const seconds = [&] { return std::chrono::duration<double>(clock::now() - begun).count(); };
    try {
        std::string const facts = p.run();
        reported.expect_none();
        if (std::string const found = truth::take_findings ? truth::take_findings() : ""; !found.empty())
            throw truth::failed{found};
        std::printf("passed %s %.2f s: %s\n", p.name, seconds(), facts.c_str());
        ++so_far.passed;
    } catch (truth::skipped const& why) {
        std::printf("skipped %s: %s\n", p.name, why.what());
        ++so_far.skipped;
    } catch (std::exception const& why) {
        std::printf("FAILED %s %.2f s: %s\n", p.name, seconds(), why.what());
        ++so_far.failed;
        reported.forget();
    }
    std::fflush(stdout);
}

[[nodiscard]] part const* find(std::string_view name) {
    for (part const& p : parts)
        if (name == p.name) return &p;
    return nullptr;
}

}  // namespace

int main(int argc, char** argv) {
    std::vector<part const*> wanted;
    bool tells_seconds = false;
    for (int i = 1; i < argc; ++i) {
        std::string_view const word = argv[i];
        if (word == "--list") {
            for (part const& p : parts) std::puts(p.name);
            return 0;
        }
        if (word.starts_with("--hold=")) return truth::hold_memory(std::strtoull(argv[i] + 7, nullptr, 10));
        if (word == "--trap") return truth::trap_in_a_kernel();
        if (word.starts_with("--reuses=")) truth::wanted_reuses = std::strtoull(argv[i] + 9, nullptr, 10);
        else if (word == "--seconds") tells_seconds = true;
        else if (part const* const named = find(word)) wanted.push_back(named);
        else {
            std::fprintf(stderr,
                         "gpu_truth [--list] [--seconds] [--reuses=N] [PART...]: there is no part '%s'\n",
                         argv[i]);
            return 2;
        }
    }
    if (wanted.empty())
        for (part const& p : parts) wanted.push_back(&p);

    int devices = 0;
    if (cudaError_t const code = cudaGetDeviceCount(&devices); code != cudaSuccess || devices == 0) {
        std::printf("skipped everything: there is no GPU (%s)\n", cudaGetErrorName(code));
        return 77;
    }
    auto const begun = std::chrono::steady_clock::now();
    reports reported;
    totals all;
    std::size_t left = wanted.size();
    for (part const* const each : wanted) {
        run(*each, reported, all);
        --left;
        if (std::string const why = why_lost(); !why.empty()) {
            std::printf("the device is lost (%s): %zu parts did not run\n", why.c_str(), left);
            ++all.failed;
            break;
        }
    }
    if (tells_seconds)
        std::printf("%.2f s in all\n",
                    std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count());
    std::printf("%d passed, %d failed, %d skipped\n", all.passed, all.failed, all.skipped);
    cuota::set_error_sink({});
    return all.failed == 0 ? 0 : 1;
}
