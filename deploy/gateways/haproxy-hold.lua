-- HAProxy has no built-in question to another server: this asks Ebbtide, and waits without blocking other requests.
-- Replace the address, the name of the policy and EBBTIDE_TOKEN (scope wake).
local HOLD = "http://127.0.0.1:8808/api/v1/hold/shop?wait=60&show=problem"

core.register_action("ebbtide_hold", {"http-req"}, function(txn)
    local client = core.httpclient()
    local answer = client:get{
        url = HOLD,
        headers = {["authorization"] = {"Bearer EBBTIDE_TOKEN"}, ["host"] = {"127.0.0.1"}},
        timeout = 75000,  -- milliseconds, longer than wait
    }
    if answer ~= nil and answer.status == 200 then
        return
    end
    local headers = answer ~= nil and answer.headers or {}
    local after = headers["retry-after"] and headers["retry-after"][0] or "30"
    local body = answer ~= nil and answer.body or ""
    txn:set_var("txn.ebbtide_late", true)
    txn:set_var("txn.ebbtide_after", after)
    txn:set_var("txn.ebbtide_body", body ~= "" and body or '{"title":"Not now","status":503}')
end)
