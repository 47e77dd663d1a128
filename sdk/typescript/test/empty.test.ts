import "grapnel/receive";
