// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Draws lines, boxes and text in SVG.
#pragma once

#include <cstddef>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>

#include <cuota/core/config.hpp>
#include <cuota/report/detail/export/svg_text.hpp>

namespace cuota::inline v0 {

/// Theme of a picture.
enum class svg_theme {
    /// Follows the viewer's browser; light without a preference.
    automatic,
    light,  ///< dark on white
    dark,   ///< light on dark gray
};

namespace detail {

class svg_canvas {
public:
    svg_canvas(unsigned width, unsigned height, svg_theme theme, std::string_view title);

    void add(std::string_view xml) { (text_ += xml) += '\n'; }
    void add_line(char const* kind, double x1, double y1, double x2, double y2);
    void add_rect(std::string const& kind, svg_box b);
    // `drawn` is drawable, and fits.
    void add_text(double x, double y, std::string_view drawn, char const* kind = "", char const* anchor = "");

    void add_triangle(double x, double y);
    [[nodiscard]] std::string take() { return std::move(text_) + "</svg>\n"; }

    [[nodiscard]] static std::string color(std::size_t i);

private:
    // Colors of Okabe and Ito, and some between: neighbors differ in lightness.
    static constexpr char const* colors[] = {"0072b2", "e69f00", "6a5acd", "cc79a7", "ddcc77", "d55e00",
                                             "ffb8a8", "1e6e78", "999933", "88ccee", "aa4499", "56b4e9"};

    [[nodiscard]] static std::string style(svg_theme theme);
    [[nodiscard]] static std::string light();
    [[nodiscard]] static std::string dark();

    std::string text_;
};

}  // namespace detail

}  // namespace cuota::inline v0

#if CUOTA_DEFINE_REPORT

namespace cuota::inline v0::detail {

CUOTA_INLINE svg_canvas::svg_canvas(unsigned width, unsigned height, svg_theme theme,
                                    std::string_view title) {
    std::string const w = std::to_string(width);
    std::string const h = std::to_string(height);
    add("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"" + w + "\" height=\"" + h + "\" viewBox=\"0 0 " +
        w + ' ' + h + "\" role=\"img\" font-family=\"system-ui, sans-serif\" font-size=\"12\">");
    add("<title>" + xml_text(title) + "</title>");
    add("<style>" + style(theme) + "</style>");
    add_rect("paper", {0, 0, width * 1.0, height * 1.0});
    add_text(16, 26, fitted(title, width - 32.0, 17), "title");
}

CUOTA_INLINE void svg_canvas::add_line(char const* kind, double x1, double y1, double x2, double y2) {
    add("<path class=\"" + std::string{kind} + "\" d=\"M" + svg_number(x1) + ' ' + svg_number(y1) + 'L' +
        svg_number(x2) + ' ' + svg_number(y2) + "\"/>");
}

CUOTA_INLINE void svg_canvas::add_rect(std::string const& kind, svg_box b) {
    add("<rect class=\"" + kind + "\" x=\"" + svg_number(b.x) + "\" y=\"" + svg_number(b.y) + "\" width=\"" +
        svg_number(b.width) + "\" height=\"" + svg_number(b.height) + "\"/>");
}

CUOTA_INLINE void svg_canvas::add_text(double x, double y, std::string_view drawn, char const* kind,
                                       char const* anchor) {
    std::string element = "<text x=\"" + svg_number(x) + "\" y=\"" + svg_number(y) + '"';
    if (*kind != '\0') element += std::string{" class=\""} + kind + '"';
    if (*anchor != '\0') element += std::string{" text-anchor=\""} + anchor + '"';
    add(element + '>' + xml_text(drawn) + "</text>");
}

CUOTA_INLINE void svg_canvas::add_triangle(double x, double y) {
    add("<path class=\"mark\" d=\"M" + svg_number(x) + ' ' + svg_number(y) + "l-5-9h10z\"/>");
}

CUOTA_INLINE std::string svg_canvas::color(std::size_t i) {
    return 'c' + std::to_string(i % std::size(colors));
}

CUOTA_INLINE std::string svg_canvas::style(svg_theme theme) {
    std::string result =
        "text{font-variant-numeric:tabular-nums}.title{font-size:16px;font-weight:600}"
        ".small{font-size:10px}.caption{font-size:11px}.halo{stroke-width:3px;stroke-linejoin:round;"
        "paint-order:stroke;font-size:11px}.line{fill:none}.total{stroke-width:.8}"
        ".reserved{stroke-width:1.6;stroke-dasharray:5 3}"
        ".limit{stroke-width:1.4;stroke-dasharray:9 3 2 3}.refusal{stroke-width:1}";
    for (std::size_t i = 0; i != std::size(colors); ++i)
        result += ".c" + std::to_string(i) + "{fill:#" + colors[i] + '}';
    if (theme != svg_theme::dark) result += light();
    if (theme == svg_theme::dark) result += dark();
    if (theme == svg_theme::automatic)
        result += ":root{color-scheme:light dark}@media(prefers-color-scheme:dark){" + dark() + '}';
    return result;
}

CUOTA_INLINE std::string svg_canvas::light() {
    return ".paper{fill:#fff}text{fill:#1b1b1b}.quiet{fill:#5a5a5a}.grid{stroke:#e2e2e2}.axis{stroke:#"
           "5a5a5a}"
           ".total,.reserved{stroke:#1b1b1b}.limit,.refusal{stroke:#b3001b}.mark,.warning{fill:#b3001b}"
           ".halo{stroke:#fff}.others{fill:#b5b5b5}.even{fill:#dcdfe4}.odd{fill:#c3c8d0}.peak{fill:#fff;"
           "stroke:#1b1b1b}";
}

CUOTA_INLINE std::string svg_canvas::dark() {
    return ".paper{fill:#16181c}text{fill:#ececec}.quiet{fill:#a8a8a8}.grid{stroke:#2b2f36}"
           ".axis{stroke:#a8a8a8}.total,.reserved{stroke:#ececec}.limit,.refusal{stroke:#ff7b72}"
           ".mark,.warning{fill:#ff7b72}.halo{stroke:#16181c}.others{fill:#6f747c}.even{fill:#2f343c}"
           ".odd{fill:#434a55}.peak{fill:#16181c;stroke:#ececec}";
}

}  // namespace cuota::inline v0::detail

#endif
