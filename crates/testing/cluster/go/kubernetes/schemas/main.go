// Command schemas prints how Go holds and writes the types of the Kubernetes API, one type a line: their fields in
// Go's order, what is left out when it is empty, their numbers in protobuf, how patches merge them. Descriptions are
// left out.
//
// A type is a scalar, `[]T`, `{}T` (a map with strings for keys), or the OpenAPI name of a struct. Where Go has a
// name of its own for what is not a struct, that stands before: `v1.RestartPolicy=string`.
package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"log"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"k8s.io/kubernetes/pkg/generated/openapi"
	metrics "k8s.io/metrics/pkg/apis/metrics/v1beta1"
)

var served = []schema.GroupVersion{
	{Version: "v1"},
	{Group: "admissionregistration.k8s.io", Version: "v1"},
	{Group: "apiextensions.k8s.io", Version: "v1"},
	{Group: "apps", Version: "v1"},
	{Group: "authentication.k8s.io", Version: "v1"},
	{Group: "authorization.k8s.io", Version: "v1"},
	{Group: "autoscaling", Version: "v1"},
	{Group: "autoscaling", Version: "v2"},
	{Group: "batch", Version: "v1"},
	{Group: "coordination.k8s.io", Version: "v1"},
	{Group: "discovery.k8s.io", Version: "v1"},
	{Group: "events.k8s.io", Version: "v1"},
	{Group: "metrics.k8s.io", Version: "v1beta1"},
	{Group: "networking.k8s.io", Version: "v1"},
	{Group: "policy", Version: "v1"},
	{Group: "rbac.authorization.k8s.io", Version: "v1"},
	{Group: "scheduling.k8s.io", Version: "v1"},
	{Group: "storage.k8s.io", Version: "v1"},
}

// What reads and writes itself.
var custom = map[reflect.Type]string{
	reflect.TypeFor[[]byte]():                                     "bytes",
	reflect.TypeFor[intstr.IntOrString]():                         "int-or-string",
	reflect.TypeFor[resource.Quantity]():                          "quantity",
	reflect.TypeFor[meta.Time]():                                  "time",
	reflect.TypeFor[meta.MicroTime]():                             "micro-time",
	reflect.TypeFor[meta.Duration]():                              "duration",
	reflect.TypeFor[meta.FieldsV1]():                              "any",
	reflect.TypeFor[runtime.RawExtension]():                       "any",
	reflect.TypeFor[apiextensions.JSON]():                         "any",
	reflect.TypeFor[apiextensions.JSONSchemaPropsOrBool]():        "schema-or-bool",
	reflect.TypeFor[apiextensions.JSONSchemaPropsOrArray]():       "schema-or-array",
	reflect.TypeFor[apiextensions.JSONSchemaPropsOrStringArray](): "schema-or-strings",
}

// A line of the table.
type object struct {
	Go     string  `json:"go"`
	Atomic bool    `json:"atomic,omitempty"`
	Fields []field `json:"fields"`
}

type field struct {
	Name string `json:"name"`
	// The structs that it is inlined from.
	Inline  string `json:"inline,omitempty"`
	Type    string `json:"type"`
	Pointer bool   `json:"pointer,omitempty"`
	// Written even when it is empty.
	Keep bool `json:"keep,omitempty"`
	// The numbers in protobuf of the structs that it is inlined from, and its own. Empty if protobuf does not have it.
	Protobuf []int `json:"protobuf,omitempty"`
	// Of a strategic merge patch.
	Patch    string `json:"patch,omitempty"`
	MergeKey string `json:"mergeKey,omitempty"`
	// Of server-side apply.
	List   string   `json:"list,omitempty"`
	Keys   []string `json:"keys,omitempty"`
	Atomic bool     `json:"atomic,omitempty"`

	Default any `json:"default,omitempty"`
}

type walk struct {
	definitions map[string]common.OpenAPIDefinition
	objects     map[string]object
}

func main() {
	log.SetFlags(0)
	for _, add := range []func(*runtime.Scheme) error{apiextensions.AddToScheme, metrics.AddToScheme} {
		if err := add(scheme.Scheme); err != nil {
			log.Fatal(err)
		}
	}
	link := func(name string) spec.Ref { return spec.MustCreateRef("#/" + name) }
	w := walk{definitions: openapi.GetOpenAPIDefinitions(link), objects: map[string]object{}}
	for _, version := range served {
		for kind, goType := range scheme.Scheme.KnownTypes(version) {
			if kind != meta.WatchEventKind {
				w.typeOf(goType)
			}
		}
	}
	w.typeOf(reflect.TypeFor[meta.Status]())
	w.typeOf(reflect.TypeFor[meta.PartialObjectMetadata]())
	w.print()
}

// typeOf names a type, and lists it if it is a struct.
func (w walk) typeOf(t reflect.Type) string {
	if name, ok := custom[t]; ok {
		return name
	}
	if reflect.PointerTo(t).Implements(reflect.TypeFor[json.Unmarshaler]()) {
		log.Fatalf("%s reads itself in a way that is not known here", t)
	}
	switch t.Kind() {
	case reflect.String, reflect.Bool, reflect.Int32, reflect.Int64, reflect.Float64:
		return alias(t, t.Kind().String())
	case reflect.Slice:
		return alias(t, "[]"+w.typeOf(t.Elem()))
	case reflect.Map:
		if t.Key().Kind() != reflect.String {
			log.Fatalf("%s has keys that are no strings", t)
		}
		return alias(t, "{}"+w.typeOf(t.Elem()))
	case reflect.Struct:
		return w.object(t)
	default:
		log.Fatalf("%s is of a kind that is not known here", t)
		return ""
	}
}

// alias puts Go's own name of a type before what the type is. Where map keys have a name, that is part of Go's name.
func alias(t reflect.Type, name string) string {
	named := t.Name() != "" && t.PkgPath() != ""
	if named || t.Kind() == reflect.Map && t.Key().Name() != "string" {
		return t.String() + "=" + name
	}
	return name
}

func (w walk) object(t reflect.Type) string {
	model, ok := reflect.Zero(t).Interface().(interface{ OpenAPIModelName() string })
	if !ok {
		log.Fatalf("%s has no OpenAPI name", t)
	}
	name := model.OpenAPIModelName()
	if _, ok := w.objects[name]; ok {
		return name
	}
	w.objects[name] = object{} // A type may hold itself.
	definition := w.definitions[name].Schema
	mapType, _ := definition.Extensions.GetString("x-kubernetes-map-type")
	w.objects[name] = object{Go: t.String(), Atomic: mapType == "atomic", Fields: w.fields(t, definition.Properties)}
	return name
}

func (w walk) fields(t reflect.Type, properties map[string]spec.Schema) []field {
	fields := []field{}
	for i := range t.NumField() {
		member := t.Field(i)
		name, options, _ := strings.Cut(member.Tag.Get("json"), ",")
		switch {
		case name == "-":
		case name == "" && member.Anonymous:
			for _, inner := range w.fields(member.Type, properties) {
				inner.Inline = strings.TrimSuffix(member.Name+"."+inner.Inline, ".")
				inner.Protobuf = below(protobuf(member), inner.Protobuf)
				fields = append(fields, inner)
			}
		case name == "" || strings.Contains(options, "string"):
			log.Fatalf("%s.%s has a tag that is not known here", t, member.Name)
		default:
			fields = append(fields, w.field(name, strings.Split(options, ","), member, properties[name]))
		}
	}
	return fields
}

func (w walk) field(name string, options []string, member reflect.StructField, property spec.Schema) field {
	t := member.Type
	pointer := t.Kind() == reflect.Pointer
	if pointer {
		t = t.Elem()
	}
	// `omitempty` means nothing to a struct.
	omit := slices.Contains(options, "omitzero") ||
		slices.Contains(options, "omitempty") && (pointer || t.Kind() != reflect.Struct)
	f := field{Name: name, Type: w.typeOf(t), Pointer: pointer, Keep: !omit, Protobuf: protobuf(member)}
	f.Patch = member.Tag.Get("patchStrategy")
	f.MergeKey = member.Tag.Get("patchMergeKey")
	if list, _ := property.Extensions.GetString("x-kubernetes-list-type"); list != "atomic" {
		f.List = list
	}
	f.Keys, _ = property.Extensions.GetStringSlice("x-kubernetes-list-map-keys")
	mapType, _ := property.Extensions.GetString("x-kubernetes-map-type")
	f.Atomic = mapType == "atomic"
	switch property.Default.(type) {
	case map[string]interface{}, []interface{}:
	default:
		f.Default = property.Default
	}
	return f
}

// protobuf is the number of a member. A list that is a message of its own has its elements as number 1 there.
func protobuf(member reflect.StructField) []int {
	tag, ok := member.Tag.Lookup("protobuf")
	if !ok {
		return nil
	}
	number, err := strconv.Atoi(strings.Split(tag, ",")[1])
	if err != nil {
		log.Fatalf("%s has a tag that is not known here", member.Name)
	}
	_, message := reflect.PointerTo(member.Type).MethodByName("Unmarshal")
	if message && member.Type.Kind() == reflect.Slice {
		return []int{number, 1}
	}
	return []int{number}
}

// below is the path to what is in a message; there is none if there is no way to the message, or in it.
func below(message, inner []int) []int {
	if message == nil || inner == nil {
		return nil
	}
	return slices.Concat(message, inner)
}

func (w walk) print() {
	names := make([]string, 0, len(w.objects))
	for name := range w.objects {
		names = append(names, name)
	}
	slices.Sort(names)
	output := bufio.NewWriter(os.Stdout)
	defer output.Flush()
	for i, name := range names {
		var line bytes.Buffer
		encoder := json.NewEncoder(&line)
		encoder.SetEscapeHTML(false)
		if err := encoder.Encode(w.objects[name]); err != nil {
			log.Fatal(err)
		}
		separator := ",\n"
		if i == 0 {
			separator = "{\n"
		}
		output.WriteString(separator + `"` + name + `":`)
		output.Write(bytes.TrimSpace(line.Bytes()))
	}
	output.WriteString("\n}\n")
}
