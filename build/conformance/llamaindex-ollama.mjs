import { OllamaEmbedding } from '@llamaindex/ollama';
import { app, assert, endless, fails, same, says, surfaced, texts } from './suite.mjs';

const client = (model = app.model) => new OllamaEmbedding({ model, config: { host: app.base } });

export const checks = {
  single: async () => same([await client().getTextEmbedding(texts[0])], texts.slice(0, 1)),
  batch: async () => same(await client().getTextEmbeddingsBatch(texts), texts),
  'too long': async () => {
    const error = await fails(() => client().getTextEmbedding(endless), ...says.tooLong);
    assert.equal(error.status_code, 400);
  },
  'wrong model': async () => {
    const error = await fails(() => client('no-such-model').getTextEmbedding('cake'), ...says.otherModel);
    assert.equal(error.status_code, 404);
  },
  refusal: surfaced('llamaindex ollama', (text) => client().getTextEmbedding(text)),
};
