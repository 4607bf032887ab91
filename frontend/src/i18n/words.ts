import en from '../../../assets/locales/en.json'
import ko from '../../../assets/locales/ko.json'

export type Language = 'en' | 'ko'
export type Key = keyof typeof en

const catalogues: Record<Language, Record<Key, string>> = { en, ko }

/** The system's language where Ondol speaks it, else English. */
export function systemLanguage(languages: readonly string[]): Language {
  return languages[0]?.toLowerCase().startsWith('ko') ? 'ko' : 'en'
}

/** The sentence `key` with its {placeholders} filled in. */
export function say(language: Language, key: Key, args: Record<string, string | number> = {}): string {
  return catalogues[language][key].replace(/\{([a-z_]+)\}/g, (whole, name: string) => String(args[name] ?? whole))
}

/** `say` for a code that comes from the app; an unknown code is shown as it is. */
export function sayCode(language: Language, prefix: string, code: string, args: Record<string, string | number> = {}): string {
  const key = `${prefix}.${code}`
  return key in catalogues[language] ? say(language, key as Key, args) : code
}
