"""An agent with the official Python SDK: lists the tools of grapnel mcp, calls them, and says what it got, as JSON."""

import asyncio
import json
import sys

import httpx2
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client


async def use(server, job):
    async with Client(server, mode=job["mode"]) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        calls = []
        for call in job["calls"]:
            heard = []

            async def progress(done, of, message, heard=heard):
                heard.append(message)

            try:
                result = await client.call_tool(call["tool"], call["arguments"], progress_callback=progress)
            except MCPError as refused:  # a tool that is not listed
                calls.append({"text": str(refused), "structured": None, "failed": True, "heard": heard})
                continue
            calls.append({"text": result.content[0].text, "structured": result.structured_content, "failed": result.is_error, "heard": heard})
        return {"server": client.server_info.name, "instructions": client.instructions, "protocol": client.protocol_version, "tools": sorted(tools),
                "schemas": all(tool.input_schema and tool.output_schema for tool in tools.values()), "calls": calls}


async def main(job):
    if "command" in job:
        return await use(StdioServerParameters(command=job["command"][0], args=job["command"][1:], env=job["env"]), job)
    async with httpx2.AsyncClient(headers={"Authorization": "Bearer " + job["key"]}, timeout=60) as keyed:
        return await use(streamable_http_client(job["url"], http_client=keyed), job)


json.dump(asyncio.run(main(json.load(sys.stdin))), sys.stdout)
