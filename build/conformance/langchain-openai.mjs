import { OpenAIEmbeddings } from '@langchain/openai';
import { app, assert, endless, fails, retried, same, says, seen, shortened, texts } from './suite.mjs';

const client = (more = {}) =>
  new OpenAIEmbeddings({ model: app.model, apiKey: 'any', configuration: { baseURL: `${app.base}/v1` }, ...more });

export const checks = {
  single: async () => same([await client().embedQuery(texts[0])], texts.slice(0, 1)),
  batch: async () => same(await client().embedDocuments(texts), texts),
  'several requests': async () => same(await client({ batchSize: 2, maxConcurrency: 1 }).embedDocuments(texts), texts),
  'default encoding': async () => {
    const [request] = await seen(async () => same([await client().embedQuery(texts[1])], texts.slice(1, 2)));
    assert.equal(request.body.encoding_format, 'base64');
  },
  float: async () => same(await client({ encodingFormat: 'float' }).embedDocuments(texts), texts),
  dimensions: async () => same(await client({ dimensions: 32 }).embedDocuments(texts), texts, shortened(32)),
  'too long': async () => {
    const error = await fails(() => client().embedQuery(endless), ...says.tooLong);
    assert.equal(error.code, 'context_length_exceeded');
  },
  'wrong model': async () => {
    const error = await fails(() => client({ model: 'no-such-model' }).embedQuery('cake'), ...says.otherModel);
    assert.equal(error.status, 404);
  },
  retry: retried('langchain openai', (text) => client().embedQuery(text)),
};
