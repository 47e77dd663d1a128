package torture

// HTML is the report as one page.
func (r *Report) HTML() ([]byte, error) { return nil, nil }
