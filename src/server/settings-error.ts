/** An invalid setting; its message is for the person who starts the server. */
export class SettingsError extends Error {}
