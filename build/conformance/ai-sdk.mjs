import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { APICallError, embed, embedMany } from 'ai';
import { app, assert, endless, fails, retried, same, says, seen, shortened, texts } from './suite.mjs';

const provider = () => createOpenAICompatible({ name: 'ondol', baseURL: `${app.base}/v1`, apiKey: 'any' });
const model = (name = app.model) => provider().embeddingModel(name);

export const checks = {
  single: async () => same([(await embed({ model: model(), value: texts[0] })).embedding], texts.slice(0, 1)),
  batch: async () => same((await embedMany({ model: model(), values: texts })).embeddings, texts),
  'default encoding': async () => {
    const [request] = await seen(() => embed({ model: model(), value: texts[1] }));
    assert.equal(request.body.encoding_format, 'float');
  },
  dimensions: async () => {
    const providerOptions = { ondol: { dimensions: 64 } };
    await same((await embedMany({ model: model(), values: texts, providerOptions })).embeddings, texts, shortened(64));
  },
  usage: async () => {
    const { usage } = await embed({ model: model(), value: texts[0] });
    assert.ok(usage.tokens > 1, JSON.stringify(usage));
  },
  'too long': async () => {
    const error = await fails(() => embed({ model: model(), value: endless }), ...says.tooLong);
    assert.ok(APICallError.isInstance(error));
    assert.equal(error.data.error.code, 'context_length_exceeded');
  },
  'wrong model': async () => {
    const error = await fails(() => embed({ model: model('no-such-model'), value: 'cake' }), ...says.otherModel);
    assert.equal(error.statusCode, 404);
  },
  retry: retried('ai sdk', async (text) => (await embed({ model: model(), value: text })).embedding),
};
