// Asks an OpenAI-shaped endpoint for two embeddings, as numbers and as base64, and checks the answer by itself:
//   node build/show-embedding.mjs http://127.0.0.1:7434 [DIMENSION]
// Prints what it found; ends with status 1 when anything is not as it must be.

const [base = "http://127.0.0.1:7434", dimension] = process.argv.slice(2);
const input = ["The floor is warm.", "바닥이 따뜻하다."];
const problems = [];
const expect = (ok, what) => ok || problems.push(what);

async function call(path, body) {
  const reply = await fetch(`${base}${path}`, {
    method: body ? "POST" : "GET",
    headers: { "content-type": "application/json", authorization: "Bearer any" },
    body: body && JSON.stringify(body),
    signal: AbortSignal.timeout(60_000),
  });
  const text = await reply.text();
  if (reply.status !== 200) throw new Error(`${path}: status ${reply.status}: ${text}`);
  return JSON.parse(text);
}

const ask = (model, encoding_format) => call("/v1/embeddings", { model, input, encoding_format });

// JSON.parse keeps a null a null: a vector with one is not all numbers.
const finite = (vector) => vector.every((x) => typeof x === "number" && Number.isFinite(x));
const norm = (vector) => Math.sqrt(vector.reduce((sum, x) => sum + x * x, 0));

function decode(text) {
  const bytes = Buffer.from(text, "base64");
  return Array.from({ length: bytes.length / 4 }, (_, i) => bytes.readFloatLE(4 * i));
}

try {
  const model = (await call("/v1/models")).data[0].id;
  const floats = await ask(model, "float");
  const packed = await ask(model, "base64");
  expect(floats.object === "list", `object is ${floats.object}, not list`);
  expect(floats.data.length === input.length, `${floats.data.length} vectors for ${input.length} inputs`);
  floats.data.forEach(({ object, index, embedding }, i) => {
    const length = norm(embedding);
    console.log(
      `  data[${i}]: object ${object}, index ${index}, dimension ${embedding.length}, ` +
        `all finite ${finite(embedding)}, norm ${length.toFixed(6)}, [${embedding.slice(0, 3).map((x) => x.toFixed(5))}, …]`,
    );
    expect(object === "embedding" && index === i, `entry ${i} is ${object} with index ${index}`);
    expect(!dimension || embedding.length === Number(dimension), `dimension ${embedding.length}, expected ${dimension}`);
    expect(finite(embedding), `vector ${i} has a component that is no finite number`);
    expect(Math.abs(length - 1) < 1e-2, `vector ${i} has norm ${length}`);
    const same = decode(packed.data[i].embedding);
    const apart = Math.max(...embedding.map((x, k) => Math.abs(x - same[k])));
    expect(same.length === embedding.length && apart < 1e-5, `vector ${i} differs between float and base64`);
  });
  const { prompt_tokens, total_tokens } = floats.usage ?? {};
  console.log(`  model ${floats.model}, prompt_tokens ${prompt_tokens}, total_tokens ${total_tokens}, base64 gives the same`);
  expect(prompt_tokens > 0 && total_tokens >= prompt_tokens, "usage is missing");
} catch (error) {
  problems.push(String(error.cause ?? error));
}
for (const problem of problems) console.error(`  WRONG: ${problem}`);
process.exitCode = problems.length ? 1 : 0;
