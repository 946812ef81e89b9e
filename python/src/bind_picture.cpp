// Picture: what notebooks show and files hold.
#include <fmt/format.h>

#include "cli/pictures.hpp"
#include "module.hpp"

namespace ringsched::python {

void bind_picture(nb::module_& m) {
  nb::class_<Picture>(m, "Picture", "A drawing, which notebooks show.")
      .def_ro("title", &Picture::title)
      .def_ro("width", &Picture::width)
      .def_ro("height", &Picture::height)
      .def(
          "svg", [](const Picture& p) { return svg(p); }, "The drawing as SVG.")
      .def(
          "save",
          [](const Picture& p, const std::string& path) {
            write_picture(p, file_kind(path, "path", kPictureKinds), path, kPixels);
          },
          "path"_a, "Writes an .svg file; .pdf or .png where the package has Cairo.")
      .def("_repr_svg_", [](const Picture& p) { return svg(p); })
      .def("__repr__", [](const Picture& p) {
        return fmt::format("<Picture {:.0f} x {:.0f}: {}>", p.width, p.height, p.title);
      });
}

}  // namespace ringsched::python
