#include "arrow.hpp"

#include <cstring>
#include <memory>
#include <string>
#include <vector>

// As the interface gives them.
extern "C" {
struct ArrowSchema {
  const char* format;
  const char* name;
  const char* metadata;
  int64_t flags;
  int64_t n_children;
  ArrowSchema** children;
  ArrowSchema* dictionary;
  void (*release)(ArrowSchema*);
  void* private_data;
};
struct ArrowArray {
  int64_t length;
  int64_t null_count;
  int64_t offset;
  int64_t n_buffers;
  int64_t n_children;
  const void** buffers;
  ArrowArray** children;
  ArrowArray* dictionary;
  void (*release)(ArrowArray*);
  void* private_data;
};
struct ArrowArrayStream {
  int (*get_schema)(ArrowArrayStream*, ArrowSchema* out);
  int (*get_next)(ArrowArrayStream*, ArrowArray* out);
  const char* (*get_last_error)(ArrowArrayStream*);
  void (*release)(ArrowArrayStream*);
  void* private_data;
};
}

namespace ringsched::python {

namespace {

// What a struct of the interface points to; its release() deletes this and so all of it. A consumer
// may move a child out and release it later, so each child has its own.
template <class T>
struct Kept {
  std::string name;
  std::vector<std::string> bytes;  // of buffers
  std::vector<const void*> buffers;
  std::vector<std::unique_ptr<T>> owned;
  std::vector<T*> children;
  T dictionary{};
};

template <class T>
void release(T* x) {
  auto* kept = static_cast<Kept<T>*>(x->private_data);
  for (T* child : kept->children)
    if (child->release) child->release(child);
  if (kept->dictionary.release) kept->dictionary.release(&kept->dictionary);
  delete kept;
  x->release = nullptr;
}

template <class T>
Kept<T>* keep(T& x) {
  x = {};
  auto* kept = new Kept<T>;
  x.private_data = kept;
  x.release = &release<T>;
  return kept;
}

template <class T>
T& add_child(T& x) {
  auto* kept = static_cast<Kept<T>*>(x.private_data);
  kept->owned.push_back(std::make_unique<T>());
  kept->children.push_back(kept->owned.back().get());
  x.children = kept->children.data();
  x.n_children = static_cast<int64_t>(kept->children.size());
  return *kept->children.back();
}

const char* format_of(Cells cells) {
  static constexpr const char* formats[] = {"C", "S", "I", "l", "g", "U"};
  return formats[static_cast<std::size_t>(cells)];
}

void describe(ArrowSchema& out, const char* format, const std::string& name) {
  Kept<ArrowSchema>* kept = keep(out);
  kept->name = name;
  out.format = format;
  out.name = kept->name.c_str();
}

void describe(ArrowSchema& out, const Column& c) {
  describe(out, format_of(c.cells), c.name);
  if (!c.is_codes()) return;
  auto* kept = static_cast<Kept<ArrowSchema>*>(out.private_data);
  describe(kept->dictionary, format_of(Cells::Text), "");
  out.dictionary = &kept->dictionary;
}

void set_buffers(ArrowArray& out, std::size_t rows, std::vector<std::string> bytes) {
  auto* kept = static_cast<Kept<ArrowArray>*>(out.private_data);
  kept->bytes = std::move(bytes);
  kept->buffers = {nullptr};  // none of the rows is absent
  for (const std::string& b : kept->bytes) kept->buffers.push_back(b.data());
  out.length = static_cast<int64_t>(rows);
  out.n_buffers = static_cast<int64_t>(kept->buffers.size());
  out.buffers = kept->buffers.data();
}

void fill_words(ArrowArray& out, const std::vector<std::string>& words) {
  keep(out);
  std::vector<int64_t> ends{0};
  std::string all;
  for (const std::string& w : words) {
    all += w;
    ends.push_back(static_cast<int64_t>(all.size()));
  }
  set_buffers(
      out, words.size(),
      {std::string(reinterpret_cast<const char*>(ends.data()), ends.size() * sizeof(int64_t)),
       std::move(all)});
}

void fill(ArrowArray& out, const Column& c, std::size_t rows) {
  if (c.cells == Cells::Text) return fill_words(out, c.words);
  Kept<ArrowArray>* kept = keep(out);
  const std::size_t size = size_of(c.cells);
  std::string bytes(rows * size, '\0');
  for (std::size_t i = 0; i < rows; ++i)
    std::memcpy(bytes.data() + i * size, static_cast<const char*>(c.first) + i * c.stride, size);
  set_buffers(out, rows, {std::move(bytes)});
  if (!c.is_codes()) return;
  fill_words(kept->dictionary, c.words);
  out.dictionary = &kept->dictionary;
}

struct Stream {
  Table table;
  bool given = false;
};

Stream& of(ArrowArrayStream* s) { return *static_cast<Stream*>(s->private_data); }

int get_schema(ArrowArrayStream* s, ArrowSchema* out) {
  describe(*out, "+s", "");
  for (const Column& c : of(s).table.columns()) describe(add_child(*out), c);
  return 0;
}

int get_next(ArrowArrayStream* s, ArrowArray* out) {
  Stream& stream = of(s);
  *out = {};
  if (stream.given) return 0;
  stream.given = true;
  keep(*out);
  set_buffers(*out, stream.table.rows(), {});
  for (const Column& c : stream.table.columns()) fill(add_child(*out), c, stream.table.rows());
  return 0;
}

const char* get_last_error(ArrowArrayStream*) { return nullptr; }

void release_stream(ArrowArrayStream* s) {
  delete &of(s);
  s->release = nullptr;
}

}  // namespace

ArrowArrayStream* new_arrow_stream(const Table& table) {
  return new ArrowArrayStream{get_schema, get_next, get_last_error, release_stream,
                              new Stream{table}};
}

void free_arrow_stream(ArrowArrayStream* s) {
  if (s->release) s->release(s);
  delete s;
}

}  // namespace ringsched::python
