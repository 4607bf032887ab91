import { OpenAIEmbedding } from '@llamaindex/openai';
import { app, assert, endless, fails, retried, same, says, seen, shortened, texts } from './suite.mjs';

const client = (more = {}) => new OpenAIEmbedding({ model: app.model, apiKey: 'any', baseURL: `${app.base}/v1`, ...more });

export const checks = {
  single: async () => same([await client().getTextEmbedding(texts[0])], texts.slice(0, 1)),
  query: async () => same([await client().getQueryEmbedding({ type: 'text', text: texts[1] })], texts.slice(1, 2)),
  batch: async () => same(await client().getTextEmbeddingsBatch(texts), texts),
  'several requests': async () => same(await client({ embedBatchSize: 2 }).getTextEmbeddingsBatch(texts), texts),
  'default encoding': async () => {
    const [request] = await seen(() => client().getTextEmbedding(texts[1]));
    assert.equal(request.body.encoding_format, 'base64');
  },
  dimensions: async () => same(await client({ dimensions: 64 }).getTextEmbeddingsBatch(texts), texts, shortened(64)),
  'too long': async () => {
    const error = await fails(() => client().getTextEmbedding(endless), ...says.tooLong);
    assert.equal(error.code, 'context_length_exceeded');
  },
  'wrong model': async () => {
    const error = await fails(() => client({ model: 'no-such-model' }).getTextEmbedding('cake'), ...says.otherModel);
    assert.equal(error.status, 404);
  },
  retry: retried('llamaindex openai', (text) => client().getTextEmbedding(text)),
};
