import OpenAI from 'openai';
import { app, assert, endless, fails, full, retried, same, says, seen, shortened, texts } from './suite.mjs';

const client = () => new OpenAI({ baseURL: `${app.base}/v1`, apiKey: 'any key will do' });
const model = app.model;

async function embed(input, options = {}) {
  const reply = await client().embeddings.create({ model, input, ...options });
  reply.data.forEach((item, i) => assert.equal(item.index, i));
  return reply.data.map((item) => item.embedding);
}

export const checks = {
  single: async () => same(await embed(texts[0]), texts.slice(0, 1)),
  batch: async () => same(await embed(texts), texts),
  'large batch': async () => {
    const many = Array.from({ length: 300 }, (_, i) => texts[(i * 7) % texts.length]);
    await same(await embed(many), many);
  },
  'default encoding': async () => {
    const [request] = await seen(async () => same(await embed(texts), texts));
    assert.equal(request.body.encoding_format, 'base64');
  },
  float: async () => same(await embed(texts, { encoding_format: 'float' }), texts),
  dimensions: async () => {
    await same(await embed(texts, { dimensions: 64 }), texts, shortened(64));
    const error = await fails(() => embed(texts, { dimensions: 4096 }), /dimensions/, /128/);
    assert.equal(error.status, 400);
  },
  usage: async () => {
    const { usage } = await client().embeddings.create({ model, input: texts });
    assert.ok(usage.prompt_tokens > texts.length && usage.total_tokens === usage.prompt_tokens, JSON.stringify(usage));
  },
  'too long': async () => {
    const error = await fails(() => embed(endless), ...says.tooLong);
    assert.ok(error instanceof OpenAI.BadRequestError);
    assert.equal(error.code, 'context_length_exceeded');
  },
  'token ids': async () => {
    const error = await fails(() => embed([[1, 2, 3]]), /check_embedding_ctx_length=False/);
    assert.equal(error.param, 'input');
  },
  'empty input': async () => {
    for (const input of ['', []]) assert.equal((await fails(() => embed(input), /input/)).status, 400);
  },
  'wrong model': async () => {
    const error = await fails(() => client().embeddings.create({ model: 'no-such-model', input: 'cake' }), ...says.otherModel);
    assert.ok(error instanceof OpenAI.NotFoundError);
    assert.equal(error.code, 'model_not_found');
  },
  retry: retried('openai', async (text) => (await embed(text))[0]),
  'refusal without retries': async () => {
    const one = new OpenAI({ baseURL: `${app.base}/v1`, apiKey: 'any', maxRetries: 0 });
    await full(async () => {
      const error = await fails(() => one.embeddings.create({ model, input: 'a cake of openai' }), ...says.queueFull);
      assert.ok(error instanceof OpenAI.RateLimitError);
      assert.equal(error.code, 'queue_full');
      assert.equal(error.headers.get('retry-after'), '1');
      const wait = Number(error.headers.get('retry-after-ms'));
      assert.ok(Number.isInteger(wait) && wait >= 1 && wait <= 60000, `retry-after-ms: ${wait}`);
    });
  },
  models: async () => {
    const listed = [];
    for await (const m of client().models.list()) listed.push(m.id);
    assert.ok(listed.includes(model), `listed: ${listed}`);
    assert.equal((await client().models.retrieve(model)).id, model);
    const error = await fails(() => client().models.retrieve('no-such-model'), ...says.otherModel);
    assert.ok(error instanceof OpenAI.NotFoundError);
  },
  'no chat engine': async () => {
    const requests = await seen(async () => {
      const error = await fails(
        () => client().chat.completions.create({ model, messages: [{ role: 'user', content: 'hello' }] }),
        /chat/,
      );
      assert.equal(error.status, 501);
    });
    assert.equal(requests.length, 1, 'it was asked again, for nothing');
  },
};
