import { OllamaEmbeddings } from '@langchain/ollama';
import { app, assert, endless, fails, retried, same, says, shortened, texts } from './suite.mjs';

const client = (more = {}) => new OllamaEmbeddings({ model: app.model, baseUrl: app.base, ...more });

// It does not see the status in its client's errors and repeats every one six times, for minutes.
const once = { maxRetries: 0 };

export const checks = {
  single: async () => same([await client().embedQuery(texts[0])], texts.slice(0, 1)),
  batch: async () => same(await client().embedDocuments(texts), texts),
  dimensions: async () => same(await client({ dimensions: 64 }).embedDocuments(texts), texts, shortened(64)),
  truncate: async () => {
    const [vector] = await client({ truncate: true }).embedDocuments([endless]);
    assert.equal(vector.length, 128);
  },
  'too long': async () => {
    const error = await fails(() => client(once).embedQuery(endless), ...says.tooLong);
    assert.equal(error.status_code, 400);
  },
  'wrong model': async () => {
    const error = await fails(() => client({ model: 'no-such-model', ...once }).embedQuery('cake'), ...says.otherModel);
    assert.equal(error.status_code, 404);
  },
  retry: retried('langchain ollama', (text) => client().embedQuery(text)),
};
