/** The voice package calls this when it loads. Berth reads the model and the phoneme table directly. */
export function registerLanguagePack() {}
