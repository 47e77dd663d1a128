//go:build linux

package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"github.com/grapnelhq/grapnel/e2e/process"
)

// Pictures are as high as their page, within these.
const (
	leastHeight = 844
	mostHeight  = 2400
)

// browser is Chromium with a session of the dashboard.
type browser struct {
	ctx  context.Context //nolint:containedctx // chromedp has the browser in it
	end  []context.CancelFunc
	base string
}

// open starts Chromium with a profile of its own and signs in.
func open(ctx context.Context, profile, base string) (*browser, error) {
	path, err := process.Chromium()
	if err != nil {
		return nil, err
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.UserDataDir(profile),
		chromedp.NoSandbox, chromedp.DisableGPU,
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true), chromedp.Flag("hide-scrollbars", true),
		chromedp.Flag("font-render-hinting", "none"), chromedp.Flag("disable-lcd-text", true))
	b := &browser{base: base}
	var end context.CancelFunc
	b.ctx, end = chromedp.NewExecAllocator(ctx, options...)
	b.end = append(b.end, end)
	b.ctx, end = chromedp.NewContext(b.ctx)
	b.end = append(b.end, end)
	err = chromedp.Do(b.ctx, chromedp.Navigate(base+"/login"), chromedp.SendKeys("#key", adminKey), chromedp.Submit("#key"),
		chromedp.WaitVisible("nav"))
	if err != nil {
		b.close()
		return nil, fmt.Errorf("signing in: %w", err)
	}
	return b, nil
}

func (b *browser) close() {
	for i := range b.end {
		b.end[len(b.end)-1-i]()
	}
}

// faults names elements that make the page scroll sideways, and targets that are too small to hit.
// Links within text and boxes to tick, which have space around them, may be smaller.
const faults = `(() => {
	const named = all => all.slice(0, 5).map(e => e.tagName + "." + e.getAttribute("class") + " " + e.textContent.trim().slice(0, 20)).join(", ")
	const wide = document.documentElement.scrollWidth <= innerWidth ? [] :
		[...document.querySelectorAll("main *")].filter(e => e.getBoundingClientRect().right > innerWidth + 1)
	const small = [...document.querySelectorAll("a, button, select, summary, input:not([type=checkbox], [type=radio])")].filter(e => {
		const box = e.getBoundingClientRect()
		return box.width > 1 && getComputedStyle(e).display != "inline" && !e.closest("svg, table, .skip") && (box.height < 24 || box.width < 24)
	})
	return (wide.length ? "too wide: " + named(wide) + " " : "") + (small.length ? "too small: " + named(small) : "")
})()`

// shoot takes a picture of a page. The window gets the height of the page, so the bar of a phone is
// at the end of the picture.
func (b *browser) shoot(target, size, theme string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(b.ctx, time.Minute)
	defer cancel()
	media := emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{
		{Name: "prefers-color-scheme", Value: theme}, {Name: "prefers-reduced-motion", Value: "reduce"},
	}}
	if size == paper {
		media.Media = "print"
	}
	if _, err := chromedp.Call(ctx, emulation.SetEmulatedMedia, media); err != nil {
		return nil, err
	}
	if err := window(ctx, size, leastHeight); err != nil {
		return nil, err
	}
	if target == "/login" { // the last page of a browser: its session ends
		if _, err := chromedp.Call(ctx, network.ClearBrowserCookies, cdp.Empty{}); err != nil {
			return nil, err
		}
	}
	if err := chromedp.Do(ctx, chromedp.Navigate(b.base+target), chromedp.WaitReady("h1")); err != nil {
		return nil, err
	}
	height, err := chromedp.Run(ctx, chromedp.Evaluate[int64](`document.documentElement.scrollHeight`))
	if err != nil {
		return nil, err
	}
	wrong, err := chromedp.Run(ctx, chromedp.Evaluate[string](faults))
	if err != nil {
		return nil, err
	}
	if wrong != "" {
		_, _ = fmt.Fprintf(os.Stderr, "shots: %s, %s: %s\n", target, size, wrong)
	}
	if err := window(ctx, size, min(max(height, leastHeight), mostHeight)); err != nil {
		return nil, err
	}
	if err := chromedp.Do(ctx, chromedp.Sleep(150*time.Millisecond)); err != nil { // the page is laid out anew
		return nil, err
	}
	taken, err := chromedp.Call(ctx, page.CaptureScreenshot, page.CaptureScreenshotParams{Format: page.CaptureScreenshotFormatPng})
	return taken.Data, err
}

func window(ctx context.Context, size string, height int64) error {
	_, err := chromedp.Call(ctx, emulation.SetDeviceMetricsOverride,
		emulation.SetDeviceMetricsOverrideParams{Width: width[size], Height: height, DeviceScaleFactor: 1, Mobile: size == phone})
	return err
}
