// Parses definitions written as text and runs them through the boxed calls of the ATen dispatcher.
#include "program.h"
#include <air_sim/half.h>
#include <algorithm>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>
#include <ATen/core/jit_type.h>
#include <cctype>
#include <cstring>
#include <stdexcept>

namespace air_sim {
namespace {
// ---------------------------------------------------------------- text
class Reader {
 public:
  explicit Reader(const std::string& text) : text_(text) {}
  bool take(char c) {
    skip();
    if (at_ < text_.size() && text_[at_] == c) return ++at_, true;
    return false;
  }
  void expect(char c) {
    if (!take(c)) fail(std::string("expected '") + c + "'");
  }
  bool end() {
    skip();
    return at_ >= text_.size();
  }
  char peek() {
    skip();
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  std::string word() {
    skip();
    size_t from = at_;
    while (at_ < text_.size() && (isalnum(static_cast<unsigned char>(text_[at_])) || strchr("_.:+-", text_[at_]))) {
      if (text_[at_] == ':' && (at_ + 1 >= text_.size() || text_[at_ + 1] != ':')) break;
      at_ += text_[at_] == ':' ? 2 : 1;
    }
    if (at_ == from) fail("expected a word");
    return text_.substr(from, at_ - from);
  }
  std::string quoted() {
    expect('"');
    size_t from = at_;
    while (at_ < text_.size() && text_[at_] != '"') ++at_;
    std::string result = text_.substr(from, at_ - from);
    expect('"');
    return result;
  }
  [[noreturn]] void fail(const std::string& why) const {
    throw std::runtime_error(why + " at character " + std::to_string(at_) + " of \"" + text_ + "\"");
  }

 private:
  void skip() {
    while (at_ < text_.size() && isspace(static_cast<unsigned char>(text_[at_]))) ++at_;
  }
  const std::string& text_;
  size_t at_ = 0;
};

// ---------------------------------------------------------------- values
struct Source {
  enum Kind { kParameter, kTemporary, kConstant, kList, kDtype, kShape, kPositive } kind = kConstant;
  size_t index = 0;
  c10::IValue constant;
  std::vector<Source> items;
};
struct Target {
  enum Kind { kParameter, kTemporary, kNothing } kind = kNothing;
  size_t index = 0;
};
struct Statement {
  std::vector<Target> targets;
  c10::OperatorHandle op;
  std::vector<Source> arguments;
};

c10::IValue tensor_value(const aclTensor* tensor) { return tensor ? c10::IValue(tensor_of(tensor)) : c10::IValue(); }

c10::IValue tensor_list(const std::vector<const aclTensor*>& items) {
  c10::List<at::Tensor> list;
  for (auto* item : items) list.push_back(tensor_of(item));
  return list;
}

template <class Array>
c10::IValue int_list(const Array& values) {
  return c10::List<int64_t>(std::vector<int64_t>(values.begin(), values.end()));
}

c10::IValue array_value(char kind, const Value& value) {
  if (!value.pointer) return c10::IValue();
  switch (kind) {
    case 'I': return int_list(as<aclIntArray>(value)->values);
    case 'F': {
      auto& values = as<aclFloatArray>(value)->values;
      return c10::List<double>(std::vector<double>(values.begin(), values.end()));
    }
    case 'B': {
      c10::List<bool> list;
      for (char flag : as<aclBoolArray>(value)->values) list.push_back(flag != 0);
      return list;
    }
    default: {
      c10::List<c10::IValue> list(c10::NumberType::get());
      for (auto* item : as<aclScalarList>(value)->values) list.push_back(item->value);
      return list;
    }
  }
}

c10::IValue parameter_value(const Call& call, size_t index) {
  const Value& value = call.values[index];
  switch (char kind = call.definition.parameters[index].kind) {
    case 'T': return tensor_value(as<aclTensor>(value));
    case 'L': return value.pointer ? tensor_list(as<aclTensorList>(value)->values) : c10::IValue();
    case 'S': return value.pointer ? c10::IValue(as<aclScalar>(value)->value) : c10::IValue();
    case 'i': case 'h': case 'c': return value.integer;
    case 'b': return value.integer != 0;
    case 'd': case 'f': return value.real;
    case 'D': return static_cast<int64_t>(dtype_of(static_cast<aclDataType>(value.integer)));
    case 's': return value.pointer ? c10::IValue(std::string(static_cast<const char*>(value.pointer))) : c10::IValue();
    default: return array_value(kind, value);
  }
}

struct Frame {
  const Call& call;
  std::vector<c10::IValue> temporaries;
};

at::Tensor named_tensor(const Frame& frame, const Source& source) {
  c10::IValue value = source.index < frame.call.values.size() ? parameter_value(frame.call, source.index)
                                                              : frame.temporaries[source.index - frame.call.values.size()];
  return value.isTensor() ? value.toTensor() : at::Tensor();
}

c10::IValue value_of(const Frame& frame, const Source& source) {
  switch (source.kind) {
    case Source::kParameter: return parameter_value(frame.call, source.index);
    case Source::kTemporary: return frame.temporaries[source.index];
    case Source::kDtype: return static_cast<int64_t>(named_tensor(frame, source).scalar_type());
    case Source::kShape: return int_list(named_tensor(frame, source).sizes());
    case Source::kPositive: {
      double number = parameter_value(frame.call, source.index).toDouble();
      return number > 0 ? c10::IValue(number) : c10::IValue();
    }
    case Source::kList: {
      std::vector<c10::IValue> items;
      for (const auto& item : source.items) items.push_back(value_of(frame, item));
      if (!items.empty() && items[0].isTensor()) {
        c10::List<at::Tensor> list;
        for (auto& item : items) list.push_back(item.toTensor());
        return list;
      }
      std::vector<int64_t> ints;
      for (auto& item : items) ints.push_back(item.toInt());
      return int_list(ints);
    }
    case Source::kConstant: break;
  }
  return source.constant;
}

// ---------------------------------------------------------------- fitting a value to the operator's argument
c10::IValue fit(c10::IValue value, const c10::TypePtr& wanted);

c10::IValue fit_list(const c10::IValue& value, const c10::TypePtr& element) {
  if (element->kind() == c10::TypeKind::OptionalType && value.isTensorList()) {
    // An empty tensor says that a dimension has no index; where all are empty, at least one is an index of no elements.
    c10::List<std::optional<at::Tensor>> list;
    const auto items = value.toTensorVector();
    const auto counts = [](const at::Tensor& item) { return item.defined() && item.numel() > 0; };
    const auto may_index = [](const at::Tensor& item) {
      return item.defined() && c10::isIntegralType(item.scalar_type(), /*includeBool=*/true);
    };
    const bool some = std::any_of(items.begin(), items.end(), counts);
    for (const at::Tensor& item : items)
      list.push_back(counts(item) || (!some && may_index(item)) ? std::optional<at::Tensor>(item) : std::nullopt);
    return list;
  }
  if (element->kind() == c10::TypeKind::FloatType && value.isIntList()) {
    auto ints = value.toIntVector();
    return c10::List<double>(std::vector<double>(ints.begin(), ints.end()));
  }
  return value;
}

c10::IValue fit(c10::IValue value, const c10::TypePtr& wanted) {
  switch (wanted->kind()) {
    case c10::TypeKind::OptionalType:
      return value.isNone() ? value : fit(std::move(value), wanted->expectRef<c10::OptionalType>().getElementType());
    case c10::TypeKind::ListType: {
      auto element = wanted->expectRef<c10::ListType>().getElementType();
      if (value.isNone() && element->kind() == c10::TypeKind::IntType) return int_list(std::vector<int64_t>());
      return fit_list(value, element);
    }
    case c10::TypeKind::FloatType:
      return value.isDouble() ? value : c10::IValue(value.toScalar().to<double>());
    case c10::TypeKind::IntType:
      return value.isInt() ? value : c10::IValue(value.toScalar().to<int64_t>());
    case c10::TypeKind::BoolType:
      return value.isBool() ? value : c10::IValue(value.toScalar().to<bool>());
    case c10::TypeKind::TensorType:
      return value.isNone() ? c10::IValue(at::Tensor()) : value;
    default: return value;
  }
}

void write(const Call& call, size_t index, const c10::IValue& result) {
  if (call.definition.parameters[index].kind != 'L') return call.write_at(index, result.toTensor());
  call.write_list_at(index, result.toTensorVector());
}

c10::IValue widened(const c10::IValue& value) {
  if (value.isTensor()) return air_sim::widened(value.toTensor());
  if (!value.isTensorList()) return value;
  c10::List<at::Tensor> list;
  for (const at::Tensor& item : value.toTensorVector()) list.push_back(air_sim::widened(item));
  return list;
}
// A function that writes to its arguments is not tried again: a copy would receive what it writes.
void call_boxed(const c10::OperatorHandle& op, std::vector<c10::IValue>& stack) {
  const std::vector<c10::IValue> given = stack;
  try {
    op.callBoxed(stack);
  } catch (const std::exception& error) {
    if (op.schema().is_mutable() || !lacks_half(error)) throw;
    stack.clear();
    for (const c10::IValue& value : given) stack.push_back(widened(value));
    op.callBoxed(stack);
  }
}

void run_statement(const Statement& statement, Frame& frame) {
  std::vector<c10::IValue> stack;
  const auto& arguments = statement.op.schema().arguments();
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (i < statement.arguments.size()) {
      stack.push_back(fit(value_of(frame, statement.arguments[i]), arguments[i].type()));
    } else if (auto& standard = arguments[i].default_value()) {
      stack.push_back(*standard);
    } else {
      TORCH_CHECK(false, statement.op.schema().name(), " needs the argument ", arguments[i].name());
    }
  }
  call_boxed(statement.op, stack);
  for (size_t i = 0; i < statement.targets.size() && i < stack.size(); ++i) {
    const Target& target = statement.targets[i];
    if (target.kind == Target::kTemporary) frame.temporaries[target.index] = stack[i];
    if (target.kind == Target::kParameter) write(frame.call, target.index, stack[i]);
  }
}

// ---------------------------------------------------------------- parsing
struct Body {
  std::vector<Statement> statements;
  size_t temporaries = 0;
};

class BodyParser {
 public:
  BodyParser(Reader& reader, Definition& definition) : reader_(reader), definition_(definition) {}

  Body parse() {
    do {
      if (reader_.end()) break;
      body_.statements.push_back(statement());
    } while (reader_.take(';'));
    if (!reader_.end()) reader_.fail("unexpected text");
    body_.temporaries = temporaries_.size();
    return std::move(body_);
  }

 private:
  Statement statement() {
    std::vector<std::string> names;
    if (reader_.peek() != '(') names.push_back(reader_.word());
    while (reader_.take(',')) names.push_back(reader_.word());
    std::string called = names.size() == 1 ? names[0] : "";
    bool assigned = reader_.take('=');
    if (assigned) called = reader_.word();
    if (called.empty()) reader_.fail("expected '='");
    std::vector<Source> arguments = argument_list(')', '(');
    std::vector<Target> targets;  // after the arguments: a name may be read and given a new value at once
    if (assigned)
      for (const auto& name : names) targets.push_back(target(name));
    return Statement{std::move(targets), operator_named(called), std::move(arguments)};
  }

  static c10::OperatorHandle operator_named(const std::string& called) {
    auto dot = called.find('.');
    std::string base = called.substr(0, dot), overload = dot == std::string::npos ? "" : called.substr(dot + 1);
    if (base.find("::") == std::string::npos) base = "aten::" + base;
    auto found = c10::Dispatcher::singleton().findSchema({base, overload});
    if (!found) throw std::runtime_error("this libtorch has no operator " + base + (overload.empty() ? "" : "." + overload));
    return *found;
  }

  Target target(const std::string& name) {
    if (name == "_") return {};
    for (size_t i = 0; i < definition_.parameters.size(); ++i)
      if (definition_.parameters[i].name == name) {
        definition_.parameters[i].written = definition_.parameters[i].nullable = true;
        return {Target::kParameter, i};
      }
    for (size_t i = 0; i < temporaries_.size(); ++i)
      if (temporaries_[i] == name) return {Target::kTemporary, i};
    temporaries_.push_back(name);
    return {Target::kTemporary, temporaries_.size() - 1};
  }

  std::vector<Source> argument_list(char closing, char opening) {
    reader_.expect(opening);
    std::vector<Source> result;
    if (reader_.take(closing)) return result;
    do result.push_back(argument());
    while (reader_.take(','));
    reader_.expect(closing);
    return result;
  }

  static Source constant(c10::IValue value) {
    Source source;
    source.constant = std::move(value);
    return source;
  }

  Source argument() {
    char c = reader_.peek();
    if (c == '"') return constant(reader_.quoted());
    if (c == '[') {
      Source source;
      source.kind = Source::kList;
      source.items = argument_list(']', '[');
      return source;
    }
    std::string word = reader_.word();
    if (isdigit(static_cast<unsigned char>(word[0])) || word[0] == '-')
      return word.find_first_of(".e") == std::string::npos ? constant(static_cast<int64_t>(std::stoll(word)))
                                                           : constant(std::stod(word));
    if (word == "None") return constant(c10::IValue());
    if (word == "True" || word == "False") return constant(word == "True");
    for (const auto& function : kFunctions)
      if (word == function.name && reader_.take('(')) return function_of(function.kind);
    return named(word);
  }

  struct Function {
    const char* name;
    Source::Kind kind;
  };
  static constexpr Function kFunctions[] = {{"dtype", Source::kDtype}, {"shape", Source::kShape}, {"positive", Source::kPositive}};

  Source function_of(Source::Kind kind) {
    Source source = named(reader_.word());
    reader_.expect(')');
    if (source.kind == Source::kTemporary) source.index += definition_.parameters.size();
    source.kind = kind;
    return source;
  }

  Source named(const std::string& name) {
    Source source;
    for (size_t i = 0; i < temporaries_.size(); ++i)
      if (temporaries_[i] == name) return source.kind = Source::kTemporary, source.index = i, source;
    for (size_t i = 0; i < definition_.parameters.size(); ++i)
      if (definition_.parameters[i].name == name) return source.kind = Source::kParameter, source.index = i, source;
    reader_.fail("unknown name " + name);
  }

  Reader& reader_;
  Definition& definition_;
  Body body_;
  std::vector<std::string> temporaries_;
};

Definition read_signature(Reader& reader) {
  Definition definition;
  definition.name = "aclnn" + reader.word();
  reader.expect('(');
  if (reader.take(')')) return definition;
  do {
    std::string kind = reader.word();
    if (kind.size() != 1 || !strchr("TLSRIFBihcbdfDsp", kind[0])) reader.fail("unknown kind " + kind);
    Parameter parameter{kind[0], false, false, ""};
    if (reader.take('?')) parameter.nullable = true;
    if (reader.take('!')) parameter.nullable = parameter.written = true;
    parameter.name = reader.word();
    definition.parameters.push_back(parameter);
  } while (reader.take(','));
  reader.expect(')');
  return definition;
}
}  // namespace

Definition parse_signature(const std::string& text) {
  Reader reader(text);
  Definition definition = read_signature(reader);
  if (!reader.end()) reader.fail("unexpected text");
  return definition;
}

Definition parse_definition(const std::string& text) {
  Reader reader(text);
  Definition definition = read_signature(reader);
  reader.expect(':');
  auto body = std::make_shared<Body>(BodyParser(reader, definition).parse());
  definition.kernel = [body](Call& call) {
    Frame frame{call, std::vector<c10::IValue>(body->temporaries)};
    for (const auto& statement : body->statements) run_statement(statement, frame);
  };
  return definition;
}
}  // namespace air_sim
