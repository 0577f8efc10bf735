// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <future>
#include <memory>
#include <thread>
#include <vector>

#include "support/catch.hpp"

/// What the tests of CUDA's own rules share. Nothing here knows the simulator, so that the files named
/// conformance_* say what the real runtime does as well.
namespace conformance {

inline void* device_memory(std::size_t bytes) {
    void* p = nullptr;
    REQUIRE(cudaMalloc(&p, bytes) == cudaSuccess);
    return p;
}

inline unsigned char* pinned_memory(std::size_t bytes) {
    void* p = nullptr;
    REQUIRE(cudaMallocHost(&p, bytes) == cudaSuccess);
    return static_cast<unsigned char*>(p);
}

inline cudaStream_t new_stream(unsigned flags = cudaStreamDefault) {
    cudaStream_t s = nullptr;
    REQUIRE(cudaStreamCreateWithFlags(&s, flags) == cudaSuccess);
    return s;
}

inline cudaEvent_t new_event(unsigned flags = cudaEventDefault) {
    cudaEvent_t e = nullptr;
    REQUIRE(cudaEventCreateWithFlags(&e, flags) == cudaSuccess);
    return e;
}

/// The bytes of device memory, once the device has finished everything.
inline std::vector<unsigned char> contents(void const* device, std::size_t bytes) {
    std::vector<unsigned char> host(bytes);
    REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
    REQUIRE(cudaMemcpy(host.data(), device, bytes, cudaMemcpyDeviceToHost) == cudaSuccess);
    return host;
}

inline bool all_are(std::vector<unsigned char> const& bytes, unsigned char value) {
    for (auto const b : bytes)
        if (b != value) return false;
    return !bytes.empty();
}

/// Stops a stream at this point until it is opened. A host function, as any program may use one.
class gate {
public:
    explicit gate(cudaStream_t s) {
        auto* const mine = new std::shared_ptr<facts>{shared_};
        REQUIRE(cudaLaunchHostFunc(s, wait, mine) == cudaSuccess);
    }
    gate(gate const&) = delete;
    gate& operator=(gate const&) = delete;
    ~gate() { open(); }

    void open() {
        if (!std::exchange(opened_, true)) shared_->opening.set_value();
    }
    [[nodiscard]] bool passed() const { return shared_->passed; }

    /// Waits until the stream stands before the gate.
    void wait_until_reached() { shared_->reaching.get_future().wait(); }

private:
    struct facts {
        std::promise<void> opening, reaching;
        std::atomic<bool> passed{false};
    };

    static void wait(void* data) {
        std::unique_ptr<std::shared_ptr<facts>> const mine{static_cast<std::shared_ptr<facts>*>(data)};
        (*mine)->reaching.set_value();
        (*mine)->opening.get_future().wait();
        (*mine)->passed = true;
    }

    std::shared_ptr<facts> shared_ = std::make_shared<facts>();
    bool opened_ = false;
};

/// Whether `call`, made on another thread, returns only after the gate has opened. A call that does wait
/// passes always; one that does not is given ample time to show it.
template <class Call>
bool returns_after(gate& g, Call call) {
    std::promise<void> begun;
    auto outcome = std::async(std::launch::async, [&] {
        begun.set_value();
        bool const succeeded = call() == cudaSuccess;
        return succeeded && g.passed();
    });
    begun.get_future().wait();
    std::this_thread::sleep_for(std::chrono::milliseconds{10});
    g.open();
    return outcome.get();
}

}  // namespace conformance
