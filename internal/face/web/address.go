package web

import (
	"net/url"
	"strings"
)

// link is the path of a page as the browser has to ask for it.
func (v *visit) link(path string) string { return v.place.base + v.web.home + path }

// here is the path and query of the request, below the base and the home.
func (v *visit) here() string { return strings.TrimPrefix(v.URL.RequestURI(), v.web.home) }

// local returns an address of this site that came from outside, or the overview. A path with two
// slashes or a backslash in front would lead to another site.
func local(to string) string {
	u, err := url.Parse(to)
	if err != nil || u.IsAbs() || u.Host != "" || !strings.HasPrefix(u.Path, "/") || strings.HasPrefix(u.Path, "//") || strings.ContainsAny(to, "\\\r\n\t") {
		return "/"
	}
	return u.RequestURI()
}

// asset is the address of a file.
func (v *visit) asset(name string) string {
	return v.place.base + "/assets/" + url.PathEscape(name) + "?" + v.web.assets.marks[name]
}
