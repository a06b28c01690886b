// The ge:: value classes: strings, shapes, tensor descriptions, tensors, graphs.
#include <cstring>

#include "model.h"
#include "session_abi.h"

namespace ge {
AscendString::AscendString(const char_t* text) {
  if (text) name_ = std::make_shared<std::string>(text);
}
const char_t* AscendString::GetString() const { return name_ ? name_->c_str() : ""; }
bool AscendString::operator<(const AscendString& other) const { return strcmp(GetString(), other.GetString()) < 0; }
bool AscendString::operator==(const AscendString& other) const { return strcmp(GetString(), other.GetString()) == 0; }

class ShapeImpl {
 public:
  std::vector<int64_t> dims;
};
Shape::Shape() : impl_(std::make_shared<ShapeImpl>()) {}
Shape::Shape(const std::vector<int64_t>& dims) : impl_(std::make_shared<ShapeImpl>()) { impl_->dims = dims; }
std::vector<int64_t> Shape::GetDims() const { return impl_->dims; }

class TensorDescImpl {
 public:
  Shape shape, origin_shape;
  Format format = FORMAT_ND, origin_format = FORMAT_ND;
  DataType type = DT_FLOAT;
  Placement placement = kPlacementHost;
};
TensorDesc::TensorDesc() : impl(std::make_shared<TensorDescImpl>()) {}
TensorDesc::TensorDesc(const TensorDesc& other) : impl(std::make_shared<TensorDescImpl>(*other.impl)) {}
TensorDesc& TensorDesc::operator=(const TensorDesc& other) {
  *impl = *other.impl;
  return *this;
}
Shape TensorDesc::GetShape() const { return impl->shape; }
void TensorDesc::SetShape(const Shape& shape) { impl->shape = Shape(shape.GetDims()); }
Format TensorDesc::GetFormat() const { return impl->format; }
void TensorDesc::SetFormat(Format format) { impl->format = format; }
void TensorDesc::SetOriginShape(const Shape& shape) { impl->origin_shape = Shape(shape.GetDims()); }
void TensorDesc::SetOriginFormat(Format format) { impl->origin_format = format; }
DataType TensorDesc::GetDataType() const { return impl->type; }
void TensorDesc::SetDataType(DataType type) { impl->type = type; }
void TensorDesc::SetPlacement(Placement placement) { impl->placement = placement; }
Placement TensorDesc::GetPlacement() const { return impl->placement; }

class TensorImpl {
 public:
  ~TensorImpl() { drop(); }
  void drop() {
    if (data && deleter) deleter(data);
    data = nullptr;
  }
  std::vector<int64_t> shape, origin_shape;
  Format format = FORMAT_ND;
  DataType type = DT_FLOAT;
  Placement placement = kPlacementHost;
  uint8_t* data = nullptr;
  size_t bytes = 0;
  Tensor::DeleteFunc deleter;
};
Tensor::Tensor() : impl(std::make_shared<TensorImpl>()) {}
TensorDesc Tensor::GetTensorDesc() const {
  TensorDesc desc;
  desc.SetShape(Shape(impl->shape));
  desc.SetFormat(impl->format);
  desc.SetDataType(impl->type);
  desc.SetPlacement(impl->placement);
  return desc;
}
graphStatus Tensor::SetTensorDesc(const TensorDesc& desc) {
  impl->shape = impl->origin_shape = desc.GetShape().GetDims();
  impl->format = desc.GetFormat();
  impl->type = desc.GetDataType();
  impl->placement = desc.GetPlacement();
  return GRAPH_SUCCESS;
}
const uint8_t* Tensor::GetData() const { return impl->data; }
uint8_t* Tensor::GetData() { return impl->data; }
size_t Tensor::GetSize() const { return impl->bytes; }
std::unique_ptr<uint8_t[], Tensor::DeleteFunc> Tensor::ResetData() {
  uint8_t* const data = impl->data;
  impl->data = nullptr;
  return {data, impl->deleter ? impl->deleter : DeleteFunc([](uint8_t*) {})};
}
graphStatus Tensor::SetData(uint8_t* data, size_t bytes, const DeleteFunc& deleter) {
  impl->drop();
  impl->data = data;
  impl->bytes = bytes;
  impl->deleter = deleter;
  return GRAPH_SUCCESS;
}
graphStatus Tensor::ResetData(uint8_t* data, size_t bytes, const DeleteFunc& deleter) { return SetData(data, bytes, deleter); }
graphStatus Tensor::SetOriginShapeDimNum(const size_t count) {
  impl->origin_shape.resize(count);
  return GRAPH_SUCCESS;
}
size_t Tensor::GetOriginShapeDimNum() const { return impl->origin_shape.size(); }
graphStatus Tensor::SetOriginShapeDim(const size_t index, const int64_t dim) {
  impl->origin_shape.at(index) = dim;
  return GRAPH_SUCCESS;
}
int64_t Tensor::GetOriginShapeDim(const size_t index) const { return impl->origin_shape.at(index); }
graphStatus Tensor::SetShapeDimNum(const size_t count) {
  impl->shape.resize(count);
  return GRAPH_SUCCESS;
}
size_t Tensor::GetShapeDimNum() const { return impl->shape.size(); }
graphStatus Tensor::SetShapeDim(const size_t index, const int64_t dim) {
  impl->shape.at(index) = dim;
  return GRAPH_SUCCESS;
}
int64_t Tensor::GetShapeDim(const size_t index) const { return impl->shape.at(index); }
graphStatus Tensor::SetFormat(const Format& format) {
  impl->format = format;
  return GRAPH_SUCCESS;
}
Format Tensor::GetFormat() const { return impl->format; }
graphStatus Tensor::SetDataType(const DataType& type) {
  impl->type = type;
  return GRAPH_SUCCESS;
}
DataType Tensor::GetDataType() const { return impl->type; }
graphStatus Tensor::SetPlacement(const Placement& placement) {
  impl->placement = placement;
  return GRAPH_SUCCESS;
}
Placement Tensor::GetPlacement() const { return impl->placement; }
const char_t* GetFormatName(Format) { return "ND"; }
}  // namespace ge
