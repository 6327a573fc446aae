// Whether what a gateway of a running stack says about itself is AsyncAPI, by the published schema of AsyncAPI.
import specs from "@asyncapi/specs";
import { Ajv } from "ajv";
import addFormats from "ajv-formats";

const url = process.env.TIDEMARK_GATEWAY ?? "http://127.0.0.1:7308";

const response = await fetch(`${url}/asyncapi.json`);
if (!response.ok) throw new Error(`${url} answers ${response.status}`);
const description = await response.json();
const ajv = new Ajv({ strict: false, allErrors: true });
addFormats.default(ajv);
const isValid = ajv.compile(specs.schemasWithoutId[description.asyncapi]);
if (!isValid(description)) {
  console.error(isValid.errors);
  process.exitCode = 1;
}
