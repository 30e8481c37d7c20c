package provider

import "testing"

func TestSpellingsThatMeanTheSame(t *testing.T) {
	cases := []struct {
		kind textKind
		a, b string
		same bool
	}{
		{amount, "12.5", "12.500000000", true},
		{amount, "012.50", "12.5", true},
		{amount, "12.5", "12.500000001", false},
		{amount, "12.5", "x", false},
		{instant, "2031-01-01T01:00:00+01:00", "2031-01-01T00:00:00.000Z", true},
		{instant, "2031-01-01T00:00:01Z", "2031-01-01T00:00:00.000Z", false},
		{gpuName, "rtx 4090", "NVIDIA-GeForce-RTX-4090", true},
		{gpuName, "NVIDIA-H100-SXM5-80GB", "h100", true},
		{gpuName, "h100", "NVIDIA-H200-SXM-141GB", false},
		{gpuName, "", "NVIDIA-H200-SXM-141GB", false},
		{publicKey, "ssh-ed25519 AAAA me@here", "ssh-ed25519  AAAA", true},
		{publicKey, "ssh-ed25519 AAAA me@here", "ssh-ed25519 AAAB me@here", false},
		{recipeJSON, `{"name":"vllm","port":8000}`, `{"port": 8000, "name": "vllm"}`, true},
		{recipeJSON, `{"name":"vllm"}`, `{"port":8000,"name":"vllm"}`, false},
		{recipeJSON, `{"name":"vllm","parsers":{"tools":"a"}}`, `{"name":"vllm","parsers":{"tools":"b"}}`, false},
	}
	for _, one := range cases {
		if means(one.kind, one.a, one.b) != one.same || means(one.kind, one.b, one.a) != one.same {
			t.Errorf("%q and %q: expected %v", one.a, one.b, one.same)
		}
	}
}

func TestShortAmounts(t *testing.T) {
	for long, short := range map[string]string{"12.500000000": "12.5", "100": "100", "7.000000000": "7", "0.000000001": "0.000000001"} {
		if shortAmount(long) != short {
			t.Errorf("%s became %s", long, shortAmount(long))
		}
	}
}

func TestImagesWithTags(t *testing.T) {
	for image, tag := range map[string]string{
		"ubuntu": "", "ubuntu:24.04": "24.04", "registry:5000/a/b": "", "registry:5000/a/b:v1": "v1", "a@sha256:00": "",
	} {
		parsed := parseImage(image)
		if deref(parsed.Tag) != tag || parsed.value().ValueString() != image {
			t.Errorf("%s became %s and %s", image, parsed.Name, deref(parsed.Tag))
		}
	}
}
