import { hooks } from "../../../hooks.mjs";

export const runtime = "nodejs";
export const POST = hooks;
