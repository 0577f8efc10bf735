// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

// A program and a library with hidden symbols share one state. Without arguments, the program is linked with the library. With the
// library's path, it opens the library and exports its own symbols; `closed` after the path makes it close the library, too. With `apart`
// after the path it exports nothing: the library has a state of its own, and reports each use of the program's objects as misuse that names
// the cause.
#include "library.hpp"

#include <dlfcn.h>

#include <cstdio>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include <cuota/core/error_sink.hpp>
#include <cuota/runtime/graph.hpp>
#include <cuota/simulator.hpp>

namespace {

int failed = 0;

void check(bool holds, char const* what) {
    if (holds) return;
    std::printf("FAILED: %s\n", what);
    ++failed;
}

template <class Action>
std::string misuse_of(Action action) {
    try {
        action();
    } catch (cuota::usage_error const& wrong) { return wrong.what(); } catch (std::exception const& other) {
        return std::string{"not a misuse: "} + other.what();
    }
    return "nothing was thrown";
}

void use_one_state(library_calls const& library) {
    std::vector<std::string> reported;
    cuota::set_error_sink([&](std::exception const& error) { reported.emplace_back(error.what()); });
    library.report_misuse();
    check(reported.size() == 1, "the program's error sink is told of the library's errors");
    cuota::set_error_sink(nullptr);

    {
        std::size_t const taken = std::size_t{64} << 20;
        cuota::budget const whole = cuota::budget::for_device(cuota::device{0});
        std::size_t const before = whole.available();
        void* const p = library.take(taken);
        cuota::budget const rest = cuota::budget::for_device(cuota::device{0});
        check(rest.available() + taken == before,
              "a budget of the device counts what the library holds once");
        library.give(p, taken);
    }

    check(library.id_of_default_stream() == cuota::stream_ref{cudaStreamPerThread}.id(),
          "a default stream has one id");

    cuota::budget account{"program", std::size_t{64} << 20};
    cuota::scoped_pool pool{account};
    cuota::stream const s;
    std::size_t const count = 100'000;
    cuota::device_buffer<float> x{count, 1.0f, s, pool, "x"};
    auto const before = x.read(s);
    bool is_captured = false;
    std::string const refused =
        misuse_of([&] { (void)cuota::capture(s, [&] { (void)library.size_of(before); }); });
    cuota::graph_exec graph = cuota::capture(s, [&] {
        is_captured = library.is_captured(s);
        library.step(pool, s, x);
    });
    check(is_captured, "the library knows of the program's capture");
    check(refused.find("lease the buffer in the capture") != std::string::npos, refused.c_str());
    {
        cuota::device_buffer<float> const y{count, 7.0f, s, pool, "y"};
        graph.launch(s);
        check(y.to_vector(s) == std::vector<float>(count, 7.0f), "the library's scratch stays the graph's");
        check(x.to_vector(s) == std::vector<float>(count, 2.0f), "the graph adds one");
    }
    library.charge(account, 1000);
    // By address: so the C++ library of LLVM compares them when it looks for a handler.
    for (std::size_t i = 0; i != types_of_errors().size(); ++i)
        check(library.types()[i] == types_of_errors()[i], types_of_errors()[i]->name());
    check(cuota::simulator::misuse().total() == 0, "the simulator sees no misuse");
}

bool is_loaded(char const* path) {
    void* const library = dlopen(path, RTLD_LAZY | RTLD_NOLOAD);
    if (library) dlclose(library);
    return library;
}

// Opens, uses and closes the library in a thread, so that its thread-local objects in the library are destroyed with the thread.
template <class Use>
void use_and_close(char const* path, Use use) {
    std::thread{[&] {
        void* const library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        use(*reinterpret_cast<decltype(&calls_of_library)>(dlsym(library, "calls_of_library"))());
        dlclose(library);
    }}.join();
}

void outlive_library(char const* path) {
    cuota::budget account{"program", 1000};
    use_and_close(path, [&](library_calls const& library) { library.charge(account, 100); });
    check(!is_loaded(path), "a library that was refused nothing is unloaded");

    std::string text;
    use_and_close(path, [&](library_calls const& library) {
        try {
            library.charge(account, 2000);
        } catch (cuota::budget_exceeded const& refused) { text = refused.what(); }
    });
    check(text.find("library.cpp") != std::string::npos, "the library was refused");
    check(account.last_refusal() && account.last_refusal()->what() == text,
          "the budget remembers what the library was refused");
    check(is_loaded(path), "its names stay");
}

void use_two_states(library_calls const& library) {
    cuota::budget account{"program", std::size_t{64} << 20};
    cuota::scoped_pool pool{account};
    cuota::stream const s;
    cuota::device_buffer<float> x{1000, 1.0f, s, pool, "x"};
    (void)x.read(s);
    auto const is_told = [](std::string const& text) { return text.find("-rdynamic") != std::string::npos; };
    std::string const of_pool = misuse_of([&] { library.step(pool, s, x); });
    check(is_told(of_pool), of_pool.c_str());
    std::string const of_budget = misuse_of([&] { library.charge(account, std::size_t{1} << 20); });
    check(is_told(of_budget), of_budget.c_str());
    check(x.to_vector(s) == std::vector<float>(1000, 1.0f), "the program goes on");
}

}  // namespace

int main(int count, char** arguments) {
    if (count == 1) {
#if defined(IS_LINKED)
        use_one_state(*calls_of_library());
#endif
    } else if (count == 3 && std::strcmp(arguments[2], "closed") == 0) {
        outlive_library(arguments[1]);
    } else {
        void* const library = dlopen(arguments[1], RTLD_NOW | RTLD_LOCAL);
        if (!library) {
            std::puts(dlerror());
            return 1;
        }
        auto* const calls = reinterpret_cast<decltype(&calls_of_library)>(dlsym(library, "calls_of_library"));
        if (count == 3 && std::strcmp(arguments[2], "apart") == 0) use_two_states(*calls());
        else use_one_state(*calls());
    }
    if (failed == 0) std::puts("ok");
    return failed;
}
