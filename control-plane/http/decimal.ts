/** A JSON number as its source text: amounts are read from their digits, never through a double. */
export class DecimalText {
  readonly text: string;

  constructor(text: string) {
    this.text = text;
  }
}

/** A JSON body whose numbers kept their digits. */
export type BodyValue = null | boolean | string | DecimalText | BodyValue[] | { [name: string]: BodyValue };
