export * from "./chat.js";
export * from "./frames.js";
export * from "./rest.js";
export * from "./state.js";
export * from "./token.js";
