/** The shape of a table of words: the same keys, any text, functions with the same arguments. */
export type Translated<T> = {
  readonly [K in keyof T]: T[K] extends string
    ? string
    : T[K] extends (...given: infer A) => string
      ? (...given: A) => string
      : Translated<T[K]>;
};
