-- The prompts that a collection's texts were embedded with, as JSON; null: those of the model's folder, none for a service.
ALTER TABLE index_collections ADD COLUMN model_prompts text;
