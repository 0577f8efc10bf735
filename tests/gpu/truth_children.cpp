// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

// Parts of gpu_truth that need a second process, which runs this program with other arguments: one that holds memory, and one whose kernel
// traps.
#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cuota/core/error_sink.hpp>
#include <cuota/data/datasets/callable_dataset.hpp>
#include <cuota/data/loader/batch_loader.hpp>
#include <cuota/pool/scoped_pool.hpp>

#include "gpu/truth.hpp"
#include "gpu/truth_simulator.hpp"

extern char** environ;

namespace truth {
namespace {

using namespace cuota::literals;

/// Runs this program with one argument in a child process, and reads its output. The destructor closes the child's standard input at the
/// latest. A child that does not answer in time is killed, and the part fails.
class child {
public:
    explicit child(std::string argument) {
        pipe_ends in, out;
        std::string self = "/proc/self/exe";
        std::array<char*, 3> const words{self.data(), argument.data(), nullptr};
        posix_spawn_file_actions_t actions;
        posix_spawn_file_actions_init(&actions);
        posix_spawn_file_actions_adddup2(&actions, in.read, STDIN_FILENO);
        posix_spawn_file_actions_adddup2(&actions, out.write, STDOUT_FILENO);
        int const code = posix_spawn(&pid_, self.c_str(), &actions, nullptr, words.data(), environ);
        posix_spawn_file_actions_destroy(&actions);
        if (code != 0) throw std::system_error{code, std::generic_category(), "posix_spawn"};
        in_ = std::exchange(in.write, -1);
        out_ = std::exchange(out.read, -1);
    }
    child(child const&) = delete;
    child& operator=(child const&) = delete;
    ~child() {
        close(in_);
        close(out_);
        if (pid_ > 0) {
            kill(pid_, SIGKILL);
            waitpid(pid_, nullptr, 0);
        }
    }

    /// Returns the next line; empty at the end of the output. Throws: failed if nothing arrives for `most`.
    [[nodiscard]] std::string line(std::chrono::seconds most) {
        for (;;) {
            if (auto const end = read_.find('\n'); end != std::string::npos) {
                std::string const first = read_.substr(0, end);
                read_.erase(0, end + 1);
                return first;
            }
            if (!read_more(most)) return std::exchange(read_, {});
        }
    }
    [[nodiscard]] std::string rest(std::chrono::seconds most) {
        while (read_more(most)) {}
        return std::exchange(read_, {});
    }
    void close_input() {
        close(in_);
        in_ = -1;
    }
    /// Waits until the child has exited. Returns its exit status, or 128 + the number of the signal that ended it.
    [[nodiscard]] int status() {
        int raw = 0;
        while (waitpid(pid_, &raw, 0) < 0)
            if (errno != EINTR) throw std::system_error{errno, std::generic_category(), "waitpid"};
        pid_ = -1;
        return WIFEXITED(raw) ? WEXITSTATUS(raw) : 128 + WTERMSIG(raw);
    }

private:
    struct pipe_ends {
        pipe_ends() {
            int ends[2];
            if (pipe2(ends, O_CLOEXEC) != 0) throw std::system_error{errno, std::generic_category(), "pipe2"};
            read = ends[0];
            write = ends[1];
        }
        pipe_ends(pipe_ends const&) = delete;
        pipe_ends& operator=(pipe_ends const&) = delete;
        ~pipe_ends() {
            close(read);
            close(write);
        }
        int read, write;
    };

    [[nodiscard]] bool read_more(std::chrono::seconds most) {
        pollfd looked_at{out_, POLLIN, 0};
        int const ready = poll(&looked_at, 1, static_cast<int>(most.count() * 1000));
        if (ready == 0)
            throw failed{"the child said nothing for " + std::to_string(most.count()) +
                         " s, after: " + read_};
        char some[4096];
        ssize_t const n = read(out_, some, sizeof some);
        if (n <= 0) return false;
        read_.append(some, static_cast<std::size_t>(n));
        return true;
    }

    pid_t pid_ = -1;
    int in_ = -1, out_ = -1;
    std::string read_;
};

/// Another process that holds `bytes` bytes of the device until this object is destroyed.
class other_process final : public neighbour {
public:
    explicit other_process(std::size_t bytes) : child_{"--hold=" + std::to_string(bytes)} {
        std::string const answer = child_.line(std::chrono::seconds{30});
        if (answer != "held") throw failed{"the other process could not hold its memory: " + answer};
    }
    ~other_process() override {
        child_.close_input();
        try {
            (void)child_.rest(std::chrono::seconds{30});
            (void)child_.status();
        } catch (std::exception const&) {}  // the destructor ends the child
    }

private:
    child child_;
};

[[nodiscard]] std::size_t free_now() { return cuota::device::current().memory().free; }

void take_and_verify(cuota::budget const& budget, std::size_t bytes) {
    cuota::stream const s;
    device_tally found{s};
    cuota::scoped_pool pool{budget};
    cuota::device_buffer<std::uint32_t> block{bytes / sizeof(std::uint32_t), s, pool, cuota::no_init,
                                              "block"};
    write_pattern(s, block, 9);
    verify_pattern(s, block, 9, found);
    found.expect_right(s, block.size(), "a block that fits");
}

/// Makes 100 requests of `bytes` bytes, all of which must be refused. Returns the change of the driver's free memory.
[[nodiscard]] std::size_t refused_often(cuota::budget const& budget, std::size_t bytes,
                                        std::size_t held_elsewhere) {
    cuota::stream const s;
    cuota::scoped_pool pool{budget};
    std::size_t const before = free_now();
    for (int i = 0; i != 100; ++i) try {
            cuota::device_buffer<std::uint32_t> block{bytes / sizeof(std::uint32_t), s, pool, cuota::no_init,
                                                      "too large"};
            throw failed{"a request was granted for which another process left no room"};
        } catch (cuota::budget_exceeded const& refused) {
            cuota::refusal const& facts = refused.info();
            expect_equal("bytes asked for, in the refusal", facts.requested, bytes);
            expect(facts.device.has_value(), "the refusal has no facts of the device");
            expect(facts.device->external() >= held_elsewhere,
                   "the refusal does not know what the other process holds");
            expect(facts.max_fit < bytes, "the refusal says that the request would fit");
        }
    expect_equal("bytes held after refusals", budget.held(), 0U);
    std::size_t const after = free_now();
    return before > after ? before - after : after - before;
}

/// Waits until the memory of an exited process is free in the driver. Throws: failed after 10 s.
void wait_for_room(cuota::budget budget, std::size_t bytes) {
    auto const most = std::chrono::steady_clock::now() + std::chrono::seconds{10};
    while (!budget.try_charge(bytes)) {
        expect(std::chrono::steady_clock::now() < most, "there is still no room after the other process");
        std::this_thread::yield();
    }
    budget.refund(bytes);
}

}  // namespace

std::string refusal_beside_process() {
    if (cuota::is_simulated() && !play_neighbour)
        throw skipped{"every process has a simulated device of its own"};
    take_and_verify(cuota::budget{"first", 64_MiB}, 4_MiB);  // loads the modules
    std::size_t const before = free_now();
    std::size_t const theirs = on_a_gpu(std::min<std::size_t>(before / 2, 8_GiB), std::size_t{32_MiB});
    // The budget allows 5/4 of `theirs` while the device is free, and 1/4 beside the other process. The request is 1/2.
    std::size_t const kept = before - theirs - theirs / 4;
    std::size_t const wanted = theirs / 2 / 4_MiB * 4_MiB;
    // Queries the driver at each charge: an older figure would not include the other process.
    cuota::budget const budget =
        cuota::budget::for_device(cuota::device::current(), 1.0, kept, std::chrono::nanoseconds{0});
    take_and_verify(budget, wanted);

    int rounds = 0;
    std::size_t changed = 0;
    {
        std::unique_ptr<neighbour> const other =
            play_neighbour ? play_neighbour(theirs) : std::make_unique<other_process>(theirs);
        // Other programs on the device may allocate or free meanwhile: one round of five must see no change.
        do changed = refused_often(budget, wanted, theirs);
        while (changed != 0 && ++rounds < 5);
        expect_equal("bytes that the driver has free after 100 refusals, less those before", changed, 0U);
    }
    wait_for_room(budget, wanted);
    take_and_verify(budget, wanted);
    expect_equal("bytes held at the end", budget.held(), 0U);
    return text("%zu bytes fitted, were refused 100 times beside a process that held %zu, and fitted after "
                "it; the driver had the "
                "same free before and after (%d more rounds)",
                wanted, theirs, rounds);
}

int hold_memory(std::size_t bytes) try {
    cuota::stream const s;
    cuota::device_buffer<std::byte> const held{bytes, s, cuota::device_memory{}, cuota::no_init};
    std::puts("held");
    std::fflush(stdout);
    while (std::getchar() != EOF) {}
    return 0;
} catch (std::exception const& error) {
    std::puts(error.what());
    return 1;
}

// ---- A kernel that traps.

namespace {

constexpr int stopped = 3, did_not_stop = 4;

struct read_outside {
    cuota::device_span<float> from;
    CUOTA_KERNEL void operator()(std::size_t i) const { from[i] = from[12]; }
};

/// Traps in a kernel while pools, buffers and a loader with a batch and reading workers exist.
int trap_with_all_alive() {
    cuota::budget const budget{"device", 256_MiB};
    cuota::stream const s, t;
    cuota::scoped_pool pool{budget};
    cuota::device_buffer<float> weights{10, s, pool, "weights"};
    cuota::device_buffer<std::uint32_t> other{1 << 16, t, pool, "other"};
    write_pattern(t, other, 1);
    cuota::callable_dataset const zeros{
        "zeros", 4096, {{"x", cuota::element_type::u8, {1024}}}, [](auto, auto const& out) {
            std::fill(out[0].begin(), out[0].end(), std::byte{0});
        }};
    cuota::batch_loader loader{zeros, {.batch_size = 64, .device_budget = budget, .workers = 2}};
    auto epoch = loader.epoch(0);
    auto const batch = epoch.next();
    try {
        cuota::for_each_index(s, 2, read_outside{weights.write(s)}, "read_outside");
        s.synchronize();
        return did_not_stop;
    } catch (cuota::cuda_error const& error) { std::printf("stopped: %s\n", error.what()); }
    try {  // the program continues and must get the error again
        write_pattern(t, other, 2);
        t.synchronize();
        std::puts("later: no error");
    } catch (std::exception const& error) { std::printf("later: %s\n", error.what()); }
    std::fflush(stdout);
    return stopped;
}

}  // namespace

int trap_in_a_kernel() {
    static std::size_t reported = 0;
    cuota::set_error_sink([](std::exception const&) { ++reported; });
    int const status = trap_with_all_alive();
    std::printf("all has ended, %zu reports\n", reported);
    std::fflush(stdout);
    return status;
}

std::string kernel_that_traps() {
    if (!CUOTA_CHECKED) throw skipped{"views are not checked in this build"};
    constexpr std::chrono::seconds most{10};
    child trapped{"--trap"};
    std::string const why = trapped.line(std::chrono::seconds{30});
    for (char const* const part :
         {"stopped: ",
          "index 12 is outside a device_span of 10 floats: weights, leased at truth_children.cpp:"})
        expect(why.find(part) != std::string::npos,
               "the error does not say '" + std::string{part} + "' but: " + why);
    std::string const later = trapped.line(most);
    expect(later.starts_with("later: ") && later != "later: no error",
           "work after the trap met no error: " + later);
    std::string const end = trapped.line(most);
    expect(end.starts_with("all has ended"), "the teardown did not end well: " + end);
    std::string const rest = trapped.rest(most);
    expect(rest.empty(), "the child said more: " + rest);
    expect_equal("the child's exit status", trapped.status(), stopped);
    take_and_verify(cuota::budget{"after", 64_MiB}, 4_MiB);  // the device still works in this process
    return "'" + why.substr(9) + "'; " + end;
}

}  // namespace truth
