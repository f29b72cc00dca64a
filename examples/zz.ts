import * as h from "heddle"; console.log("uptime", performance.now().toFixed(0), Object.keys(h).length)
