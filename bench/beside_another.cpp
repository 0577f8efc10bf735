// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Another process fills the device: the device's budget must refuse that memory before the driver does, and grant it after the process has
/// ended. beside_another [SHARE]: the process's share of the device, 0.5 by default.
///
/// Exit status 1 if the driver refused a request, or if the budget was exceeded or never refused.
#include <unistd.h>

#include <sys/wait.h>

#include <cstdio>
#include <cstdlib>
#include <optional>
#include <vector>

#include <cuota/cuota.hpp>

using namespace cuota::literals;

namespace {

constexpr std::size_t kept_free = 256_MiB;

/// Child process that holds device memory until this object is destroyed. Construct it before this process calls CUDA.
class other_process {
public:
    explicit other_process(double share) {
        int told[2], held_open[2];
        if (pipe(told) != 0 || pipe(held_open) != 0) return;
        child_ = fork();
        if (child_ == 0) {
            close(told[0]);
            close(held_open[1]);
            hold(share, told[1], held_open[0]);
        }
        close(told[1]);
        close(held_open[0]);
        leash_ = held_open[1];
        if (read(told[0], &bytes_, sizeof bytes_) != static_cast<ssize_t>(sizeof bytes_)) bytes_ = 0;
        close(told[0]);
    }
    other_process(other_process const&) = delete;
    other_process& operator=(other_process const&) = delete;
    ~other_process() {
        close(leash_);
        if (child_ > 0) waitpid(child_, nullptr, 0);
    }

    [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }  ///< 0: its allocation failed

private:
    [[noreturn]] static void hold(double share, int tell, int leash) {
        std::size_t free = 0, total = 0, bytes = 0;
        void* p = nullptr;
        if (cudaMemGetInfo(&free, &total) == cudaSuccess) {
            bytes = static_cast<std::size_t>(share * static_cast<double>(free));
            if (cudaMalloc(&p, bytes) != cudaSuccess) bytes = 0;
        }
        char nothing = 0;
        if (write(tell, &bytes, sizeof bytes) == static_cast<ssize_t>(sizeof bytes))
            (void)!read(leash, &nothing, 1);  // returns when the parent closes its end
        _exit(0);
    }

    pid_t child_ = -1;
    int leash_ = -1;
    std::size_t bytes_ = 0;
};

}  // namespace

int main(int argc, char** argv) try {
    double const share = argc > 1 ? std::atof(argv[1]) : 0.5;
    std::optional<other_process> other{std::in_place, share};
    if (other->bytes() == 0) {
        std::puts("the other process got no memory: nothing was tried");
        return 1;
    }
    cuota::device const device = cuota::device::current();
    bool const is_simulated = cuota::is_simulated();
    std::printf("%s\nthe other process holds %s\n", device.name().c_str(),
                cuota::bytes_text(other->bytes()).c_str());

    // On the simulated runtime every process has a device of its own, so a small share suffices.
    cuota::budget const budget = cuota::budget::for_device(device, is_simulated ? 0.03 : 1.0, kept_free);
    cuota::scoped_pool pool{budget, {.name = "greedy"}};
    cuota::stream const stream;
    std::size_t const each = device.memory().total / 512;
    std::vector<void*> taken;
    bool is_refused = false;
    while (!is_refused) try {
            taken.push_back(pool.allocate(stream, each, cuota::default_alignment, "what fits"));
        } catch (cuota::budget_exceeded const& refused) {
            is_refused = true;
            std::printf("refused after %s, while the driver had %s:\n%s\n",
                        cuota::bytes_text(taken.size() * each).c_str(),
                        cuota::bytes_text(device.memory().free).c_str(), refused.what());
        } catch (cuota::out_of_memory const& refused) {
            std::printf("REFUSED BY THE DRIVER: %s\n", refused.what());
            return 1;
        }
    bool const is_within = is_simulated || device.memory().free >= kept_free;
    if (!is_within) std::puts("LESS IS FREE THAN WAS TO BE KEPT");

    other.reset();
    if (is_simulated) {
        std::puts("SKIPPED: what the other process gives back (a simulated device is one process's own)");
    } else {
        taken.push_back(pool.allocate(stream, each, cuota::default_alignment, "what fits now"));
        std::printf("the other process has ended: %s more, and room for %s\n",
                    cuota::bytes_text(each).c_str(), cuota::bytes_text(budget.available()).c_str());
    }
    for (void* const p : taken) pool.deallocate(stream, p, each);
    return is_within ? 0 : 1;
} catch (std::exception const& error) {
    std::printf("%s\n", error.what());
    return 1;
}
