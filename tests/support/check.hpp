// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0
#pragma once
#pragma GCC system_header  // as Catch2's own: its decomposer chains comparisons, of which g++ warns

// CHECK and REQUIRE of Catch2 2.13 with one call in place of the handler, the try block and the second copy of the expression that its
// own macros expand to: a fourth of the code of all tests. An exception of the expression ends the test case, after a CHECK too; the
// report names the line of the check before it. Included by support/catch.hpp.
#include <cstddef>

namespace support {

/// The constants of a CHECK or REQUIRE.
struct check_site {
    char const* file;
    std::size_t line;
    Catch::StringRef macro;
    Catch::StringRef text;
    Catch::ResultDisposition::Flags on_failure;

    constexpr check_site(char const* file_, std::size_t line_, Catch::StringRef macro_,
                         Catch::StringRef text_, int flags)
        : file{file_},
          line{line_},
          macro{macro_},
          text{text_},
          on_failure{static_cast<Catch::ResultDisposition::Flags>(flags)} {}
};

/// Evaluates a decomposed expression as Catch2's own macro does.
template <class Expression>
[[gnu::noinline]] void check_expression(check_site const& site, Expression const& expression) {
    Catch::AssertionHandler handler{site.macro, {site.file, site.line}, site.text, site.on_failure};
    handler.handleExpr(expression);
    handler.complete();
}

inline void check(check_site const& site, Catch::ITransientExpression const& expression) {
    check_expression(site, expression);
}
template <class T>
void check(check_site const& site, Catch::ExprLhs<T> const& operand) {
    check_expression(site, operand);
}

}  // namespace support

// No commas outside of parentheses: a CHECK may be part of an argument of another macro.
#define CUOTA_CHECK(macro, flags, ...)                                                                       \
    do {                                                                                                     \
        static constexpr support::check_site site_of_check(__FILE__, __LINE__, macro##_catch_sr,             \
                                                           #__VA_ARGS__##_catch_sr, flags);                  \
        CATCH_INTERNAL_START_WARNINGS_SUPPRESSION                                                            \
        CATCH_INTERNAL_SUPPRESS_PARENTHESES_WARNINGS                                                         \
        support::check(site_of_check, Catch::Decomposer() <= __VA_ARGS__);                                   \
        CATCH_INTERNAL_STOP_WARNINGS_SUPPRESSION                                                             \
    } while (false)
#undef CHECK
#undef CHECK_FALSE
#undef REQUIRE
#undef REQUIRE_FALSE
#define CHECK(...) CUOTA_CHECK("CHECK", Catch::ResultDisposition::ContinueOnFailure, __VA_ARGS__)
#define CHECK_FALSE(...)                                                                                     \
    CUOTA_CHECK("CHECK_FALSE",                                                                               \
                int{Catch::ResultDisposition::ContinueOnFailure} | int{Catch::ResultDisposition::FalseTest}, \
                __VA_ARGS__)
#define REQUIRE(...) CUOTA_CHECK("REQUIRE", Catch::ResultDisposition::Normal, __VA_ARGS__)
#define REQUIRE_FALSE(...)                                                                                   \
    CUOTA_CHECK("REQUIRE_FALSE",                                                                             \
                int{Catch::ResultDisposition::Normal} | int{Catch::ResultDisposition::FalseTest},            \
                __VA_ARGS__)
